"""Row tables: shards, updates that a device decides on, rows of a grown vocabulary.

AdamW on rows: test_optimizer_options.
"""

import numpy as np
import pytest
import torch

from modtok_cli.tokenizer.spelling import Spelling
from modtok_cli.training.rows import table as table_module
from modtok_cli.training.rows.growth import grow_rows
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


def slow_rows(old: torch.Tensor, spelling: Spelling, first: torch.Tensor) -> torch.Tensor:
    """The definition, token by token."""
    rows = first.clone()
    for token, ids in enumerate(np.split(spelling.ids, spelling.offsets[1:-1])):
        parts = old[torch.from_numpy(ids).long()]
        if len(ids) == 1:
            rows[token] = parts[0]
        elif len(ids) > 1:
            mean = parts.mean(0)
            rows[token] = mean * (parts.norm(dim=1).mean() / mean.norm())
    return rows


@pytest.mark.parametrize(("old_shards", "shards"), [(1, 1), (2, 1), (1, 3), (3, 2)])
def test_rows_follow_the_definition(old_shards: int, shards: int) -> None:
    generator = np.random.default_rng(0)
    lengths = generator.integers(0, 5, 40)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    spelling = Spelling(generator.integers(0, 17, offsets[-1]).astype(np.int32), offsets)
    old = torch.randn(17, 6)
    parts = [old[shard::old_shards].contiguous() for shard in range(old_shards)]
    for shard in range(shards):
        table = RowTable(40, 6, shard=shard, shards=shards)
        table.initialize(5)
        whole = RowTable(40, 6)
        whole.initialize(5)
        grow_rows(table, parts, spelling)
        expected = slow_rows(old, spelling, whole.weight)[shard::shards]
        torch.testing.assert_close(table.weight, expected)
        copied = torch.from_numpy(lengths == 1)[shard::shards]
        assert torch.equal(table.weight[copied], expected[copied])
        assert not table.moment1.any() and not table.steps.any()  # noqa: PT018
