"""Rows that replicas exchange: gathered, reduced and counted, in threads instead of processes."""

import threading
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from types import SimpleNamespace
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.training.distributed.ranks import Ranks
from modtok_cli.training.rows import exchange as exchanging
from modtok_cli.training.rows.copies import Copies
from modtok_cli.training.rows.exchange import RowExchange, RowPlan, owners_of

SIZE, WIDTH = 40, 3


class Group:
    """A process group whose ranks are threads; has the functions of `torch.distributed` in use."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size)
        self.values: list[Any] = [None] * size
        self.sent = [0] * size  # bytes to other ranks
        self.mine = threading.local()

    def share(self, value: Any) -> list[Any]:
        self.values[self.mine.rank] = copy(value)
        self.barrier.wait(600)
        found = list(self.values)
        self.barrier.wait(600)
        return found

    def all_to_all_single(
        self,
        out: torch.Tensor,
        values: torch.Tensor,
        output_split_sizes: list[int],
        input_split_sizes: list[int],
        group: Any,
        async_op: bool,
    ) -> Any:
        assert values.is_contiguous()
        rank = self.mine.rank
        others = len(values) - input_split_sizes[rank]
        self.sent[rank] += others * values[:1].numel() * values.element_size()
        parts = [
            torch.split(every, sizes)[rank]
            for every, sizes in zip(self.share(values), self.share(input_split_sizes), strict=True)
        ]
        assert [len(part) for part in parts] == output_split_sizes
        return SimpleNamespace(wait=lambda: out.copy_(torch.cat(parts)))


def ranks_of(replica: int, replicas: int, shards: int, shard: int, group: Any) -> Ranks:
    device = torch.device("cpu")
    rank, world = replica * shards + shard, replicas * shards
    return Ranks(rank, world, shard, shards, replica, replicas, device, None, group, group)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), replicas=st.integers(2, 4), shards=st.integers(1, 2))
def test_exchange_equals_plain_indexing(data: st.DataObject, replicas: int, shards: int) -> None:
    shard = data.draw(st.integers(0, shards - 1))
    ids = st.sets(st.integers(0, SIZE // shards - 1)).map(sorted)
    needed = [
        {name: torch.tensor(data.draw(ids), dtype=torch.int64) * shards + shard for name in "ab"}
        for _ in range(replicas)
    ]
    chosen = torch.tensor(data.draw(st.lists(st.booleans(), min_size=SIZE, max_size=SIZE)))
    table = torch.randn(SIZE, WIDTH)
    gradients = [{n: torch.randn(len(i), WIDTH) for n, i in one.items()} for one in needed]
    group = Group(replicas)

    def run(replica: int) -> tuple[int, dict[str, RowPlan]]:
        group.mine.rank = replica
        exchange = RowExchange(ranks_of(replica, replicas, shards, shard, group), Copies())
        plans = exchange.plan(needed[replica])
        for name, plan in plans.items():
            assert torch.equal(plan.ids, needed[replica][name])
            (placed,) = exchange.place([plan])
            assert torch.equal(exchange.gather(placed, table[plan.own])(), table[plan.ids])
            total = torch.zeros(SIZE, WIDTH)
            for one, gradient in zip(needed, gradients, strict=True):
                total.index_add_(0, one[name], gradient[name])
            own = exchange.reduce(placed, gradients[replica][name])
            assert torch.equal(own, total[plan.own])  # added in the order of the ranks
        sent = group.sent[replica]
        for name, plan in plans.items():  # some rows only
            part = plan.among(chosen)
            assert torch.equal(part.own, plan.own[chosen[plan.own]])
            whole, some = exchange.place([plan, part])
            gradient = gradients[replica][name]
            of_all = exchange.reduce(whole, gradient)
            assert torch.equal(exchange.reduce(some, gradient), of_all[chosen[plan.own]])
        return sent, plans

    original, exchanging.dist = exchanging.dist, group  # type: ignore[assignment]
    try:
        with ThreadPoolExecutor(replicas) as pool:
            found = list(pool.map(run, range(replicas)))
    finally:
        exchanging.dist = original
    for replica, (sent, plans) in enumerate(found):
        owned = [owners_of(plan.ids, shards, replicas) != replica for plan in plans.values()]
        asked = int(sum(map(sum, owned)))
        others = sum(len(plan.asked) - plan.asks[replica] for plan in plans.values())
        # Two counts for each other replica, ids as int32, rows there and gradients back.
        assert sent == 2 * 8 * (replicas - 1) + 4 * asked + 4 * WIDTH * (others + asked)
    for name in "ab":  # every active row has one owner
        owned = torch.cat([plans[name].own for _, plans in found])
        assert torch.equal(owned.sort().values, torch.cat([one[name] for one in needed]).unique())


def test_one_replica_copies_nothing() -> None:
    exchange = RowExchange(ranks_of(0, 1, 1, 0, None), Copies())
    ids, rows = torch.tensor([1, 4]), torch.randn(2, WIDTH)
    plan = exchange.plan({"table": ids})["table"]
    (placed,) = exchange.place([plan])
    assert exchange.gather(placed, rows)() is rows
    assert exchange.reduce(placed, rows) is rows
    assert torch.equal(plan.own, ids)


def test_rows_of_a_language_are_spread_over_replicas() -> None:
    # Four ranks, two shards: rows 0 and 1 on the first replica, 2 and 3 on the second.
    assert owners_of(torch.tensor([0, 2, 4, 6]), 2, 2).tolist() == [0, 1, 0, 1]
