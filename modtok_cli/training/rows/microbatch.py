"""Microbatches on the device, copied there one step ahead, and the table rows that they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
import torch.distributed as dist

from modtok_cli.base.arrays import BoolArray, Int32Array, Int64Array
from modtok_cli.training.data.slot_packer import Batch
from modtok_cli.training.data.stream import BatchStream
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.distributed.ranks import Ranks, summed
from modtok_cli.training.rows.copies import Copies, Warn, copies_for
from modtok_cli.training.rows.table import RowTable


@dataclass
class GatheredRows:
    """The active rows of a table in a step.

    Attributes:
        ids: (n,) int64, ascending, ids of this shard.
        arriving: gives the rows when they have come from their owners.
        training: whether gradients are computed.
    """

    ids: torch.Tensor
    arriving: Callable[[], torch.Tensor]
    training: bool
    _sum: torch.Tensor | None = None

    @cached_property
    def rows(self) -> torch.Tensor:
        """(n, d), a leaf tensor that accumulates their gradients; the first use waits for it."""
        return self.arriving().requires_grad_(self.training)

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
        vocabulary: (n,) int64, ascending ids of T: this shard's part of the output vocabulary V_S.
        weights: (B · S,) float32, weight of each token in the loss of the step, which is the sum
            over all microbatches of all replicas.
        documents: (documents + 1,) int32, see `document_bounds`; None: not known.
        host: inputs and V_S in host memory; None: only the device has them.
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    vocabulary: torch.Tensor
    weights: torch.Tensor
    documents: torch.Tensor | None = None
    host: tuple[Int32Array, Int32Array] | None = None


def microbatches_of(
    arrays: Iterable[tuple[Int32Array, Int32Array, Int32Array]],
    ranks: Ranks,
    copies: Copies,
    end_of_text: int = -1,
    in_loss: Sequence[BoolArray | None] | None = None,
    replica_group: dist.ProcessGroup | None = None,
) -> list[MicroBatch]:
    """Microbatches in one copy, from (inputs in ids of T, targets in local ids, ids of V_S).

    The loss is the mean over the tokens of all microbatches together, also of the other
    replicas in `replica_group`, of hosts: then this is collective. With `in_loss` it is over these
    tokens; None stands for all. Documents start at `end_of_text`, an id of T.
    """
    arrays = list(arrays)
    masks = in_loss or [None] * len(arrays)
    counts = [
        targets.size if mask is None else int(mask.sum())
        for (_, targets, _), mask in zip(arrays, masks, strict=True)
    ]
    total = int(summed(torch.tensor(sum(counts)), replica_group))
    share = 1 / max(1, total)  # none is in the loss of a step within long prompts
    parts: list[npt.NDArray[np.integer]] = []
    for (inputs, targets, ids), mask in zip(arrays, masks, strict=True):
        if mask is not None:
            parts.append(mask.astype(np.int32))
        own = ids if ranks.shards == 1 else ids[ids % ranks.shards == ranks.shard]
        parts += [inputs, ids[targets], own, document_bounds(inputs, end_of_text)]
    sent = iter(copies.send([torch.from_numpy(part) for part in parts]))
    microbatches = []
    for (inputs, targets, ids), mask in zip(arrays, masks, strict=True):
        if mask is None:
            weights = torch.full((targets.size,), share, device=ranks.device)
        else:
            weights = next(sent).flatten().float() * share
        microbatches.append(
            MicroBatch(
                next(sent).view(inputs.shape),
                next(sent),
                next(sent),
                weights,
                next(sent).int(),
                (inputs, ids),
            )
        )
    return microbatches


def document_bounds(inputs: Int32Array, end_of_text: int) -> Int64Array:
    """Where documents start in sequences one after the other, and the end; int64, ascending.

    A document starts with an end-of-text token. A sequence may start inside a document.

    >>> document_bounds(np.array([[5, 0, 7], [8, 9, 0]], dtype=np.int32), 0).tolist()
    [0, 1, 3, 5, 6]
    """
    starts = inputs == end_of_text
    starts[:, 0] = True
    return np.append(np.flatnonzero(starts), starts.size)


def active_ids(
    tables: Mapping[str, RowTable], microbatches: Sequence[MicroBatch], ranks: Ranks
) -> dict[str, torch.Tensor]:
    """Ids of this shard's rows that the microbatches need, in host memory, ascending, by table.

    For the output table (and the single table if tied) the ids of the vocabularies; for the
    input table the input ids.
    """
    active = {}
    for name, table in tables.items():
        used = np.zeros(table.size, np.bool_)
        for one in microbatches:
            ids = one.host or (one.inputs.cpu().numpy(), one.vocabulary.cpu().numpy())
            used[ids[name != "input"]] = True
        mine = np.flatnonzero(used[ranks.shard :: ranks.shards])
        active[name] = torch.from_numpy(mine * ranks.shards + ranks.shard)
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
    """Copies the batches of a stream to the device, from pinned memory and in one copy per step.

    `sequences` consecutive slots are a microbatch. Replicas exchange the number of their tokens in
    the loss, so that `step` and `ahead` are collective. `warn` is told if memory cannot be pinned.
    """

    def __init__(
        self,
        stream: BatchStream,
        subtokenizers: SubtokenizerCache,
        ranks: Ranks,
        sequences: int,
        warn: Warn = print,
    ) -> None:
        self.stream, self._sequences, self._ranks = stream, sequences, ranks
        self._subtokenizers, self._copies = subtokenizers, copies_for(ranks.device, warn)
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
        rows = [self._subtokenizers.of(batch.draw.languages).global_ids for batch in batches]
        microbatches = microbatches_of(
            ((one.inputs, one.targets, ids) for one, ids in zip(batches, rows, strict=True)),
            self._ranks,
            self._copies,
            self._subtokenizers.end_of_text,
            [one.in_loss for one in batches],
            self._ranks.host_group,
        )
        sizes = [(one.targets.size, len(ids)) for one, ids in zip(batches, rows, strict=True)]
        return Step(sequences, batches, microbatches, sizes)
