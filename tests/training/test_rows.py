"""Row tables: sharding, sparse and dense AdamW."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.training.rows import table as table_module
from modtok_cli.training.rows.table import AdamW, RowTable, update_in_place

ADAMW = AdamW()


def table(size: int = 23, width: int = 4, **options: int) -> RowTable:
    made = RowTable(size, width, **options)
    made.initialize(7)
    return made


def slow_sparse(weight, history, rate):
    """Row by row: AdamW over the steps in which the row was active, and only those."""
    rows = weight.double().clone()
    for row in range(len(rows)):
        m = v = torch.zeros(rows.shape[1], dtype=torch.float64)
        steps = 0
        for ids, gradients in history:
            for i, g in zip(ids.tolist(), gradients.double(), strict=True):
                if i != row:
                    continue
                steps += 1
                rows[row] -= rate * ADAMW.weight_decay * rows[row]
                m = ADAMW.beta1 * m + (1 - ADAMW.beta1) * g
                v = ADAMW.beta2 * v + (1 - ADAMW.beta2) * g * g
                first = m / (1 - ADAMW.beta1**steps)
                second = v / (1 - ADAMW.beta2**steps)
                rows[row] -= rate * first / (second.sqrt() + ADAMW.epsilon)
    return rows.float()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sets(st.integers(0, 22), min_size=1), min_size=1, max_size=6))
def test_sparse_update_equals_row_by_row(active: list[set[int]]) -> None:
    rows = table()
    start = rows.weight.clone()
    generator = torch.Generator().manual_seed(1)
    history = []
    for chosen in active:
        ids = torch.tensor(sorted(chosen))
        gradients = torch.randn(len(ids), 4, generator=generator)
        history.append((ids, gradients))
        rows.update(ids, gradients, 0.01, ADAMW)
    torch.testing.assert_close(rows.weight, slow_sparse(start, history, 0.01))
    idle = sorted(set(range(23)) - set.union(*active))
    assert torch.equal(rows.weight[idle], start[idle])
    assert not rows.steps[idle].any()


def test_dense_update_equals_torch_adamw() -> None:
    rows = table()
    parameter = torch.nn.Parameter(rows.weight.clone())
    adamw = torch.optim.AdamW([parameter], lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    generator = torch.Generator().manual_seed(1)
    for step in range(20):
        ids = torch.arange(step % 3, 23, 1 + step % 4)
        gradients = torch.randn(len(ids), 4, generator=generator)
        parameter.grad = torch.zeros(23, 4).index_copy_(0, ids, gradients)
        adamw.step()
        rows.update_dense(ids, gradients, 0.01, ADAMW)
    torch.testing.assert_close(rows.weight, parameter.detach())


def test_sparse_and_dense_differ_only_where_rows_idle() -> None:
    # The choice is real: an idle row stays under sparse updates and decays under dense ones.
    sparse, dense = table(), table()
    ids = torch.tensor([1, 5])
    for _ in range(3):
        gradients = torch.ones(2, 4)
        sparse.update(ids, gradients, 0.01, ADAMW)
        dense.update_dense(ids, gradients, 0.01, ADAMW)
    torch.testing.assert_close(sparse.weight[ids], dense.weight[ids])
    torch.testing.assert_close(dense.weight[0], sparse.weight[0] * (1 - 0.01 * 0.1) ** 3)


@pytest.mark.parametrize("update", ["update", "update_dense"])
def test_the_device_decides_that_nothing_changes(
    update: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU, without a look at the gradients: moments and counts stay too."""
    rows, twin = table(fused=True), table()
    rows._arrays = None
    compiled: list[int] = []

    def step(state, rows, *rest) -> None:
        compiled.append(len(rows))
        update_in_place(state, rows, *rest)

    monkeypatch.setattr(table_module, "compiled_step", lambda: step)
    monkeypatch.setattr(table_module, "_BLOCK", 1)
    ids, bad = torch.tensor([1, 5]), torch.full((2, 4), torch.nan)
    for gradients, finite in ((torch.ones(2, 4), True), (bad, False), (torch.ones(2, 4), True)):
        getattr(rows, update)(ids, gradients, 0.01, ADAMW, torch.tensor(finite))
        if finite:
            getattr(twin, update)(ids, gradients, 0.01, ADAMW)
    for part in ("weight", "moment1", "moment2", "steps"):
        torch.testing.assert_close(getattr(rows, part), getattr(twin, part), atol=1e-7, rtol=1e-6)
    assert compiled == [1] * 6 * (update == "update")


@pytest.mark.parametrize("shards", [2, 3, 7])
def test_shards_together_are_the_table(shards: int) -> None:
    whole = table()
    ids = torch.tensor([0, 3, 4, 9, 22])
    gradients = torch.randn(5, 4)
    parts = [table(shard=shard, shards=shards) for shard in range(shards)]
    assert sum(len(part.weight) for part in parts) == 23
    for shard, part in enumerate(parts):
        assert torch.equal(part.weight, whole.weight[shard::shards])
        own = ids[ids % shards == shard]
        assert torch.equal(part.gather(own), whole.gather(own))
        part.update(own, gradients[ids % shards == shard], 0.01, ADAMW)
    whole.update(ids, gradients, 0.01, ADAMW)
    for shard, part in enumerate(parts):
        assert torch.equal(part.weight, whole.weight[shard::shards])


def test_initialization_does_not_depend_on_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = table(50, shard=1, shards=3).weight.clone()
    assert 0.01 < whole.std() < 0.03
    rows = table(50).weight[1::3]
    assert torch.equal(rows, whole)
