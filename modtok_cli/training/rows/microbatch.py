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
from modtok_cli.training.rows.copies import Warn, copies_for


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


class Prefetched(list[MicroBatch]):
    """The microbatches of a step, and the ids that they need: (n,) int64, ascending.

    Attributes:
        inputs: ids that occur.
        vocabulary: ids that may be predicted.
    """

    def __init__(
        self, microbatches: Iterable[MicroBatch], inputs: torch.Tensor, vocabulary: torch.Tensor
    ) -> None:
        super().__init__(microbatches)
        self.inputs, self.vocabulary = inputs, vocabulary


def active_ids(
    tables: Iterable[str], microbatches: Sequence[MicroBatch], ranks: Ranks
) -> dict[str, torch.Tensor]:
    """Ids of this shard's rows that the microbatches need, ascending, by name of table.

    For the output table (and the single table if tied) the ids of the vocabularies; for the
    input table the input ids. Of `Prefetched` ones they are known; else the host waits for them.
    """
    active = {}
    for name in tables:
        if isinstance(microbatches, Prefetched):
            ids = microbatches.inputs if name == "input" else microbatches.vocabulary
        else:
            every = [m.inputs.flatten() if name == "input" else m.vocabulary for m in microbatches]
            none = torch.empty(0, dtype=torch.int64, device=ranks.device)
            ids = torch.unique(torch.cat([none, *every]))
        active[name] = ranks.mine(ids)
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
    microbatches: Prefetched
    sizes: list[tuple[int, int]]


class Prefetcher:
    """Copies the batches of a stream to the device, from pinned memory and in one copy per step.

    `sequences` consecutive slots are a microbatch. `warn` is told if memory cannot be pinned.
    """

    def __init__(
        self,
        stream: BatchStream,
        subtokenizers: SubtokenizerCache,
        device: torch.device,
        sequences: int,
        warn: Warn = print,
    ) -> None:
        self.stream, self._sequences = stream, sequences
        self._subtokenizers, self._copies = subtokenizers, copies_for(device, warn)
        self._ahead: Step | None = None
        self._staged: torch.Tensor | None = None

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
        rows = [self._subtokenizers.of(batch.draw.languages).global_ids for batch in batches]
        parts: list[Int32Array] = []
        for one, ids in zip(batches, rows, strict=True):
            parts += [one.inputs, ids[one.targets], ids]
        parts += [self._union(one.inputs for one in batches), self._union(rows)]
        staged = self._copies.empty(sum(part.size for part in parts), torch.int64)
        np.concatenate([part.ravel() for part in parts], out=staged.numpy())
        self._staged = staged  # until the next step's: by then it has been copied
        (whole,) = self._copies.arrive(self._copies.upload([staged]))
        *pieces, inputs, vocabulary = torch.split(whole, [part.size for part in parts])
        microbatches = [
            MicroBatch(
                pieces[3 * i].view(one.inputs.shape),
                pieces[3 * i + 1],
                pieces[3 * i + 2],
                torch.full((one.targets.size,), 1.0 / one.targets.size, device=whole.device),
            )
            for i, one in enumerate(batches)
        ]
        return Step(
            sequences,
            batches,
            Prefetched(microbatches, inputs, vocabulary),
            [(one.targets.size, len(ids)) for one, ids in zip(batches, rows, strict=True)],
        )

    def _union(self, ids: Iterable[Int32Array]) -> Int32Array:
        """All ids, ascending, each once."""
        used = np.zeros(self._subtokenizers.size, np.bool_)
        for some in ids:
            used[some.ravel()] = True
        return np.flatnonzero(used).astype(np.int32)
