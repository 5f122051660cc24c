"""Rows of a step among replicas: each replica owns a share of every table.

Row g of a table is stored on one rank only: of n tensor-parallel shards and R replicas on shard
g mod n, and there on replica (g div n) mod R, so that every language is spread evenly. A step

1. asks the owners for the rows that a replica needs, between hosts;
2. sends these rows to who asked for them, in the dtype of the device;
3. sends their float32 gradients back to the owners, which add them and update their rows.

Rows and gradients of a table travel in one all-to-all each; a replica receives what it needs. An
owner adds gradients in the order of the ranks. With one replica nothing is copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
import torch.distributed as dist

from modtok_cli.training.distributed.ranks import Ranks, entering
from modtok_cli.training.rows.copies import Copies


@dataclass(frozen=True)
class RowPlan:
    """The active rows of a table in a step, and which of them this rank needs and owns.

    All tensors are in host memory.

    Attributes:
        ids: (n,) int64, ascending; rows that this rank's microbatches need.
        asked: (m,) int64; rows of this rank that replicas need, one replica after the other, ids of
            each ascending.
        asks: how many of `asked` each replica needs.
        shards, replica, replicas: tensor-parallel size, data-parallel rank and size.
        chosen: (n,) int64, places of `ids` in the plan that this one is a part of; None if whole.
    """

    ids: torch.Tensor
    asked: torch.Tensor
    asks: tuple[int, ...]
    shards: int = 1
    replica: int = 0
    replicas: int = 1
    chosen: torch.Tensor | None = None

    @staticmethod
    def alone(ids: torch.Tensor, shards: int) -> RowPlan:
        """The plan of the only replica."""
        return RowPlan(ids, ids, (len(ids),), shards)

    @cached_property
    def own(self) -> torch.Tensor:
        """Rows of this rank that any replica needs, ascending."""
        return self.ids if self.replicas == 1 else torch.unique(self.asked)

    @cached_property
    def owners(self) -> torch.Tensor:
        """The replica that owns each row of `ids`."""
        return owners_of(self.ids, self.shards, self.replicas)

    @cached_property
    def needs(self) -> tuple[int, ...]:
        """How many of `ids` each replica owns."""
        return tuple(torch.bincount(self.owners, minlength=self.replicas).tolist())

    @cached_property
    def order(self) -> torch.Tensor:
        """Places of `ids`, one owner after the other."""
        return torch.argsort(self.owners, stable=True)

    @cached_property
    def places(self) -> torch.Tensor:
        """Where each of `asked` is in `own`."""
        return torch.searchsorted(self.own, self.asked)

    def among(self, chosen: torch.Tensor) -> RowPlan:
        """The plan without rows that are not `chosen`, (V,) bool."""
        places, kept = torch.nonzero(chosen[self.ids])[:, 0], chosen[self.asked]
        asks = tuple(int(part.sum()) for part in torch.split(kept, list(self.asks)))
        place = self.shards, self.replica, self.replicas
        return RowPlan(self.ids[places], self.asked[kept], asks, *place, chosen=places)


@dataclass(frozen=True)
class PlacedPlan:
    """A plan, and what the device needs of it: copies of its tensors; order and places if sent."""

    plan: RowPlan
    ids: torch.Tensor
    own: torch.Tensor
    chosen: torch.Tensor | None
    order: torch.Tensor | None = None
    places: torch.Tensor | None = None


class RowExchange:
    """Exchanges rows and gradients with the other replicas: `plan`, `gather`, `reduce` together."""

    def __init__(self, ranks: Ranks, copies: Copies) -> None:
        self._ranks, self._copies = ranks, copies

    def plan(self, needed: Mapping[str, torch.Tensor]) -> dict[str, RowPlan]:
        """Plans by table, from the ids that this rank needs: ascending, of its shard, on the host.

        The host waits for the other hosts, and not for a device.
        """
        ranks = self._ranks
        shards, replicas = ranks.shards, ranks.replicas
        if replicas == 1:
            return {name: RowPlan.alone(ids, shards) for name, ids in needed.items()}
        parts_NR = []
        for ids in needed.values():
            owners = owners_of(ids, shards, replicas)
            counts = torch.bincount(owners, minlength=replicas).tolist()
            parts_NR.append(torch.split(ids[torch.argsort(owners, stable=True)], counts))
        # For each owner its rows of all tables, one table after the other.
        flat = torch.cat([part for parts in zip(*parts_NR, strict=True) for part in parts]).int()
        counts_RN = torch.tensor([[len(parts[r]) for parts in parts_NR] for r in range(replicas)])
        one_each, group = [1] * replicas, ranks.host_group
        asked_RN = self._all_to_all(counts_RN, one_each, one_each, group)
        splits = counts_RN.sum(1).tolist(), asked_RN.sum(1).tolist()
        asked = self._all_to_all(flat, *splits, group).long()
        each = torch.split(asked, asked_RN.flatten().tolist())
        plans = {}
        for table, (name, ids) in enumerate(needed.items()):
            rows = each[table :: len(needed)]
            asks = tuple(map(len, rows))
            plans[name] = RowPlan(ids, torch.cat(rows), asks, shards, ranks.replica, replicas)
        return plans

    def place(self, plans: Iterable[RowPlan]) -> list[PlacedPlan]:
        """Plans on the device, in one copy."""
        plans = list(plans)
        arrays: list[torch.Tensor] = []
        for plan in plans:
            arrays += [plan.ids, plan.own, *([] if plan.chosen is None else [plan.chosen])]
            arrays += [plan.order, plan.places] if plan.replicas > 1 else []
        sent = iter(self._copies.send(arrays))
        return [
            PlacedPlan(
                plan,
                next(sent),
                next(sent),
                None if plan.chosen is None else next(sent),
                *((next(sent), next(sent)) if plan.replicas > 1 else ()),
            )
            for plan in plans
        ]

    def gather(self, placed: PlacedPlan, own: torch.Tensor) -> Callable[[], torch.Tensor]:
        """Start to gather the rows of `placed.ids` from this rank's rows of `placed.own`.

        The result, (n, d), waits for them; what is computed until then runs meanwhile.
        """
        plan, order = placed.plan, placed.order
        if order is None or placed.places is None:
            return lambda: own
        group = self._ranks.replica_group
        received, sending = self._start(own[placed.places], plan.asks, plan.needs, group)

        def arrive() -> torch.Tensor:
            sending.wait()
            rows = torch.empty_like(received)
            rows[order] = received
            return rows

        return arrive

    def reduce(self, placed: PlacedPlan, gradients: torch.Tensor) -> torch.Tensor:
        """Float32 sums over replicas of gradients of `placed.own`, from gradients of `placed.ids`.

        Of a part of a plan, from the gradients of the whole plan.
        """
        plan = placed.plan
        if placed.chosen is not None:
            gradients = gradients[placed.chosen]
        if placed.order is None or placed.places is None:
            return gradients
        parts = self._all_to_all(
            gradients[placed.order].float(), plan.needs, plan.asks, self._ranks.replica_group
        )
        result = torch.zeros(len(placed.own), gradients.shape[1], device=gradients.device)
        # A replica asks for a row once: sums have one order.
        asked = torch.split(placed.places, list(plan.asks))
        for rows, part in zip(asked, torch.split(parts, list(plan.asks)), strict=True):
            result.index_add_(0, rows, part)
        return result

    def _all_to_all(
        self,
        values: torch.Tensor,
        to: Iterable[int],
        out_of: Iterable[int],
        group: dist.ProcessGroup | None,
    ) -> torch.Tensor:
        """Return the tensors that `_start` receives, when they have arrived."""
        received, sending = self._start(values, to, out_of, group)
        sending.wait()
        return received

    def _start(
        self,
        values: torch.Tensor,
        to: Iterable[int],
        out_of: Iterable[int],
        group: dist.ProcessGroup | None,
    ) -> tuple[torch.Tensor, Any]:
        """Send the first `to[0]` of `values` to replica 0, the next `to[1]` to 1, …; what arrives.

        `out_of` says how many come from each.
        """
        back = list(out_of)
        entering()
        received = values.new_empty(sum(back), *values.shape[1:])
        sending = dist.all_to_all_single(
            received,
            values.contiguous(),
            output_split_sizes=back,
            input_split_sizes=list(to),
            group=group,
            async_op=True,
        )
        return received, sending


def owners_of(ids: torch.Tensor, shards: int, replicas: int) -> torch.Tensor:
    """The replica that owns each row.

    >>> owners_of(torch.tensor([0, 2, 4]), 2, 2).tolist()
    [0, 1, 0]
    """
    return torch.div(ids, shards, rounding_mode="floor") % replicas
