"""Rows of a step among replicas: each replica owns a share of every table.

Row g of a table is stored on one rank only: of n tensor-parallel shards and R replicas on shard
g mod n, and there on replica (g div n) mod R, so that every language is spread evenly. A step

1. exchanges the ids that the replicas need, between hosts; their union is the step's active rows;
2. all-gathers those rows from their owners, in the dtype of the device;
3. reduce-scatters the float32 gradients to the owners, which update their rows.

Rows travel in blocks, so that no rank holds more than those it needs and one block. With one
replica nothing is copied.

`RowExchange.sent` counts bytes of algorithms that send no value twice: a rank sends its part of an
all-gather to each of the R - 1 others (directly, or around a ring), and of a reduce-scatter
(R - 1) / R of its buffer. torch's gloo has no such reduce-scatter (it reduces the whole buffer
on every rank): there it is an all-to-all, and a sum in the order of ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
import torch.distributed as dist

from modtok_cli.training.distributed.ranks import Ranks, entering
from modtok_cli.training.rows.copies import Copies

BLOCK_BYTES = 64 << 20
"""Bytes of rows, in float32, that travel at a time."""


@dataclass(frozen=True)
class RowPlan:
    """The active rows of a table in a step, and which of them this rank needs and owns.

    All tensors are in host memory.

    Attributes:
        ids: (n,) int64, ascending; rows that this rank's microbatches need.
        union: (u,) int64, ascending; rows that any replica needs, on this tensor-parallel shard.
        shards, replica, replicas: tensor-parallel size, data-parallel rank and size.
        chosen: (n,) int64, places of `ids` in the plan that this one is a part of; None if whole.
    """

    ids: torch.Tensor
    union: torch.Tensor
    shards: int = 1
    replica: int = 0
    replicas: int = 1
    chosen: torch.Tensor | None = None

    def owner(self, ids: torch.Tensor) -> torch.Tensor:
        """The replica that owns each row."""
        return torch.div(ids, self.shards, rounding_mode="floor") % self.replicas

    @cached_property
    def own(self) -> torch.Tensor:
        """Rows of the union that this rank owns, ascending."""
        if self.replicas == 1:
            return self.union
        return self.union[self.owner(self.union) == self.replica]

    def among(self, chosen: torch.Tensor) -> RowPlan:
        """The plan without rows that are not `chosen`, (V,) bool."""
        places, union = torch.nonzero(chosen[self.ids])[:, 0], self.union[chosen[self.union]]
        return RowPlan(
            self.ids[places], union, self.shards, self.replica, self.replicas, chosen=places
        )

    @cached_property
    def _places(self) -> tuple[torch.Tensor, torch.Tensor, int]:
        """Of each row of `ids`: its owner, its number among the owner's rows of the union.

        Also the largest number of rows that one replica owns.
        """
        owners = self.owner(self.union)
        order = torch.argsort(owners, stable=True)
        counts = torch.bincount(owners, minlength=self.replicas)
        starts = torch.cumsum(counts, 0) - counts
        numbers = torch.empty_like(order)
        numbers[order] = torch.arange(len(order)) - starts[owners[order]]
        at = torch.searchsorted(self.union, self.ids)
        return owners[at], numbers[at], int(counts.max())

    @property
    def longest(self) -> int:
        """The largest number of rows of the union that one replica owns."""
        return self._places[2]

    def blocks(self, most: int) -> list[_Block]:
        """The exchange in blocks of at most `most` rows per owner."""
        owners, numbers, longest = self._places
        order = torch.argsort(numbers, stable=True)
        starts = torch.arange(0, longest + most, most)
        cuts = torch.searchsorted(numbers[order], starts).tolist()
        blocks = []
        for block, start in enumerate(range(0, longest, most)):
            length = min(most, longest - start)
            rows = order[cuts[block] : cuts[block + 1]]
            places = owners[rows] * length + numbers[rows] - start
            last = max(start, min(start + length, len(self.own)))
            blocks.append(_Block(length, slice(start, last), last - start, rows, places))
        return blocks


@dataclass(frozen=True)
class _Block:
    """Rows that travel together: `length` per owner.

    Attributes:
        own, owned: the range of `RowPlan.own` in it, and its length.
        rows, places: which rows of `RowPlan.ids` it holds, and where.
    """

    length: int
    own: slice
    owned: int
    rows: torch.Tensor
    places: torch.Tensor


@dataclass(frozen=True)
class PlacedPlan:
    """A plan, and what the device needs of it: copies of `ids`, `own` and `chosen`, and blocks."""

    plan: RowPlan
    ids: torch.Tensor
    own: torch.Tensor
    chosen: torch.Tensor | None
    blocks: Sequence[_Block] = ()


class RowExchange:
    """Exchanges rows and gradients with the other replicas: `plan`, `gather`, `reduce` together.

    Attributes:
        sent: bytes that this rank has sent so far.
    """

    def __init__(self, ranks: Ranks, copies: Copies, block_bytes: int = BLOCK_BYTES) -> None:
        self._ranks, self._copies, self._block_bytes = ranks, copies, block_bytes
        self.sent = 0

    def plan(self, needed: Mapping[str, torch.Tensor]) -> dict[str, RowPlan]:
        """Plans by table, from the ids that this rank needs: ascending, of its shard, on the host.

        The host waits for the other hosts, and not for a device.
        """
        ranks = self._ranks
        if ranks.replicas == 1:
            return {name: RowPlan(ids, ids, ranks.shards) for name, ids in needed.items()}
        counts = torch.tensor([len(ids) for ids in needed.values()])
        counts_RN = self._all_gather(counts, ranks.host_group)
        longest = int(counts_RN.sum(1).max())
        flat = torch.zeros(longest, dtype=torch.int32)
        flat[: int(counts.sum())] = torch.cat(list(needed.values()))
        every = self._all_gather(flat, ranks.host_group)
        ends = counts_RN.cumsum(1).tolist()
        plans = {}
        for index, (name, ids) in enumerate(needed.items()):
            parts = [
                every[replica, row[index - 1] if index else 0 : row[index]]
                for replica, row in enumerate(ends)
            ]
            union = torch.unique(torch.cat(parts)).long()
            plans[name] = RowPlan(ids, union, ranks.shards, ranks.replica, ranks.replicas)
        return plans

    def place(self, plans: Iterable[RowPlan], width: int) -> list[PlacedPlan]:
        """Plans for rows of `width` values, on the device, in one copy."""
        found = [(plan, self._blocks(plan, width)) for plan in plans]
        arrays: list[torch.Tensor] = []
        for plan, blocks in found:
            arrays += [plan.ids, plan.own, *([] if plan.chosen is None else [plan.chosen])]
            arrays += [part for block in blocks for part in (block.rows, block.places)]
        sent = iter(self._copies.send(arrays))
        return [
            PlacedPlan(
                plan,
                next(sent),
                next(sent),
                None if plan.chosen is None else next(sent),
                [replace(block, rows=next(sent), places=next(sent)) for block in blocks],
            )
            for plan, blocks in found
        ]

    def gather(self, placed: PlacedPlan, own: torch.Tensor) -> torch.Tensor:
        """The rows of `placed.ids`, (n, d), from this rank's rows of `placed.own`."""
        if placed.plan.replicas == 1:
            return own
        width = own.shape[1]
        result = own.new_empty(len(placed.ids), width)
        for block in placed.blocks:
            part = own.new_zeros(block.length, width)
            part[: block.owned] = own[block.own]
            every = self._all_gather(part, self._ranks.replica_group)
            result[block.rows] = every.view(-1, width)[block.places]
        return result

    def reduce(self, placed: PlacedPlan, gradients: torch.Tensor) -> torch.Tensor:
        """Sum over replicas of the gradients of `placed.own`, from those of `placed.ids`; float32.

        Of a part of a plan, from those of the whole plan. A replica that does not need a row adds
        zero.
        """
        replicas = placed.plan.replicas
        if placed.chosen is not None:
            gradients = gradients[placed.chosen]
        if replicas == 1:
            return gradients
        width = gradients.shape[1]
        result = torch.empty(len(placed.own), width, device=gradients.device)
        for block in placed.blocks:
            shape = (replicas, block.length, width)
            parts = torch.zeros(shape, device=gradients.device)
            parts.view(-1, width)[block.places] = gradients[block.rows].float()
            result[block.own] = self._reduce_scatter(parts)[: block.owned]
        return result

    def _blocks(self, plan: RowPlan, width: int) -> list[_Block]:
        if plan.replicas == 1:
            return []
        return plan.blocks(max(1, self._block_bytes // (4 * width * plan.replicas)))

    def _all_gather(self, part: torch.Tensor, group: dist.ProcessGroup | None) -> torch.Tensor:
        """The parts of all replicas, which have the same shape; (R, *part.shape)."""
        replicas = self._ranks.replicas
        self.sent += (replicas - 1) * part.numel() * part.element_size()
        entering()
        whole = part.new_empty(replicas * len(part), *part.shape[1:])
        dist.all_gather_into_tensor(whole, part.contiguous(), group=group)
        return whole.view(replicas, *part.shape)

    def _reduce_scatter(self, parts: torch.Tensor) -> torch.Tensor:
        """Sum over replicas of `parts[r]` for replica r; (R, …) to (…)."""
        group = self._ranks.replica_group
        self.sent += (self._ranks.replicas - 1) * parts[0].numel() * parts.element_size()
        entering()
        if dist.get_backend(group) == "gloo":
            received = torch.empty_like(parts)
            dist.all_to_all_single(received, parts, group=group)
            return received.sum(0)
        own = torch.empty_like(parts[0])
        dist.reduce_scatter_tensor(own, parts.flatten(0, 1), group=group)
        return own


def sent_bytes(needed: int, longest: int, tables: int, width: int, size: int, replicas: int) -> int:
    """Bytes that a rank sends in a step for rows of `tables` tables.

    Args:
        needed: most ids that a rank needs, of all tables together.
        longest: most rows that a rank owns of the union, of all tables together.
        width, size: values of a row, bytes of a value on the device.
        replicas: R; without padding, longest = |union| / R.

    Example: 2 replicas, 100 ids, 50 owned rows of 4 float32: counts 16, ids 400, rows 800,
    gradients 800 bytes.

    >>> sent_bytes(100, 50, 2, 4, 4, 2)
    2016
    """
    return (replicas - 1) * (8 * tables + 4 * needed + longest * width * (size + 4))
