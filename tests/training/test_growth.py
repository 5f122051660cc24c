"""A grown vocabulary: first weights of its rows."""

import numpy as np
import pytest
import torch

from modtok_cli.modular.spelling import Spelling
from modtok_cli.training.rows.growth import grow_rows
from modtok_cli.training.rows.table import RowTable


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


def test_the_worked_example() -> None:
    table = RowTable(1, 2)
    spelling = Spelling(np.array([0, 1], np.int32), np.array([0, 2]))
    grow_rows(table, [torch.tensor([[3.0, 0.0], [0.0, 1.0]])], spelling)
    torch.testing.assert_close(table.weight, torch.tensor([[1.8974, 0.6325]]), atol=1e-4, rtol=0)
