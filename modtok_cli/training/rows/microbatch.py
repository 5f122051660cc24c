"""Microbatches on the device, copied there one step ahead, and the table rows that they need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from modtok_cli.base.arrays import Int32Array
from modtok_cli.training.data.slot_packer import Batch
from modtok_cli.training.data.stream import BatchStream
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.distributed.ranks import Ranks


@dataclass
class GatheredRows:
    """The active rows of a table in a step.

    Attributes:
        ids: (n,) int64, ascending, ids of this shard.
        rows: (n, d), a leaf tensor that accumulates their gradients.
    """

    ids: torch.Tensor
    rows: torch.Tensor
    _sum: torch.Tensor | None = None

    def find(self, ids: torch.Tensor) -> torch.Tensor:
        """Positions in `rows` of ids that are among them."""
        return torch.searchsorted(self.ids, ids.contiguous())

    def add_gradient(self) -> None:
        """Add the gradient of the last microbatch to the sum, in float32 as the backbone's is.

        In bfloat16 a sum over many microbatches would lose most of its digits.
        """
        gradient, self.rows.grad = self.rows.grad, None
        if self._sum is None:
            self._sum = None if gradient is None else gradient.float()
        elif gradient is not None:
            self._sum += gradient

    @property
    def gradient(self) -> torch.Tensor:
        """The sum, (n, d) float32; zeros if no token used any row on this shard."""
        if self._sum is None:
            return torch.zeros_like(self.rows, dtype=torch.float32)
        return self._sum


@dataclass(frozen=True)
class MicroBatch:
    """A microbatch on the device.

    Attributes:
        inputs: (B, S) int64, ids of T.
        targets: (B · S,) int64, ids of T.
        vocabulary: (|V_S|,) int64, ascending ids of T: the output vocabulary.
        weights: (B · S,) float32, weight of each token in the loss.
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    vocabulary: torch.Tensor
    weights: torch.Tensor

    @staticmethod
    def of(
        inputs: Int32Array,
        targets: Int32Array,
        global_ids: Int32Array,
        device: torch.device,
        weights: npt.NDArray[np.float32] | None = None,
    ) -> MicroBatch:
        """From arrays: `inputs` in ids of T, `targets` in local ids of `global_ids`.

        Without `weights` the loss is the mean over the tokens.
        """
        vocabulary = torch.from_numpy(global_ids.astype(np.int64))
        chosen = torch.from_numpy(targets.astype(np.int64).ravel())
        tokens = torch.from_numpy(inputs.astype(np.int64))
        if weights is None:
            weights = np.full(targets.size, 1.0 / targets.size, dtype=np.float32)
        return MicroBatch(
            tokens.to(device),
            vocabulary[chosen].to(device),
            vocabulary.to(device),
            torch.from_numpy(weights.ravel()).to(device),
        )


def active_ids(
    tables: Iterable[str], microbatches: Sequence[MicroBatch], ranks: Ranks
) -> dict[str, torch.Tensor]:
    """Ids of this shard's rows that the microbatches need, ascending, by name of table.

    For the output table (and the single table if tied) the ids of the vocabularies; for the
    input table the input ids.
    """
    active = {}
    for name in tables:
        ids = [m.inputs.flatten() if name == "input" else m.vocabulary for m in microbatches]
        none = torch.empty(0, dtype=torch.int64, device=ranks.device)
        active[name] = ranks.mine(torch.unique(torch.cat([none, *ids])))
    return active


@dataclass(frozen=True)
class Step:
    """The microbatches of a rank in one step, in order of slots.

    Attributes:
        sequences: what the stream gave, a sequence each.
        batches, microbatches: the same microbatches in host memory and on the device.
        sizes: (tokens, |V_S|) of each.
    """

    sequences: list[Batch]
    batches: list[Batch]
    microbatches: list[MicroBatch]
    sizes: list[tuple[int, int]]


class Prefetcher:
    """Copies the batches of a stream to the device, once per step.

    `sequences` consecutive slots are a microbatch.
    """

    def __init__(
        self,
        stream: BatchStream,
        subtokenizers: SubtokenizerCache,
        device: torch.device,
        sequences: int,
    ) -> None:
        self.stream, self._sequences = stream, sequences
        self._subtokenizers, self._device = subtokenizers, device
        self._ahead: Step | None = None

    def step(self, step: int) -> Step:
        """The microbatches of `step`, the next one."""
        now, self._ahead = self.ahead(step), None
        assert now is not None
        self.stream.use(step, now.sequences)
        return now

    def ahead(self, step: int) -> Step | None:
        """The microbatches that the next call of `step` returns; None after the last step."""
        if self._ahead is None:
            sequences = self.stream.take(step)
            self._ahead = None if sequences is None else self._on_device(sequences)
        return self._ahead

    def close(self) -> None:
        """Stop the worker processes."""
        self.stream.close()

    def _on_device(self, sequences: list[Batch]) -> Step:
        starts = range(0, len(sequences), self._sequences)
        batches = [Batch.joined(sequences[start : start + self._sequences]) for start in starts]
        ids = [self._subtokenizers.of(batch.draw.languages).global_ids for batch in batches]
        pairs = list(zip(batches, ids, strict=True))
        return Step(
            sequences,
            batches,
            [MicroBatch.of(one.inputs, one.targets, rows, self._device) for one, rows in pairs],
            [(one.targets.size, len(rows)) for one, rows in pairs],
        )
