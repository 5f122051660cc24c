"""Row tables: their shards, and updates that a device decides on; AdamW: test_optimizer_options."""

import pytest
import torch

from modtok_cli.training.rows import table as table_module
from modtok_cli.training.rows.table import AdamW, RowTable, update_in_place

ADAMW = AdamW()


def table(size: int = 23, width: int = 4, **options: int) -> RowTable:
    made = RowTable(size, width, **options)
    made.initialize(7)
    return made


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


def test_shards_are_initialized_as_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "_BLOCK", 8)
    whole = table(50).weight
    assert 0.01 < whole.std() < 0.03
    assert torch.equal(table(50, shard=1, shards=3).weight, whole[1::3])
