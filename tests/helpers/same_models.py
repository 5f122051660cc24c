"""Two models, number by number."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from modtok_cli.training.model.model import Model

PARTS = ("weight", "moment1", "moment2", "steps")


def pairs(one: Model, other: Model) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Weights, moments and counts of rows, then weights and moments of the backbone."""
    for name, table in one.tables.items():
        for part in PARTS:
            yield getattr(table, part), getattr(other.tables[name], part)
    for name in one.backbone.parameters:
        for part, tensor in one.optimizer.state(name).items():
            yield tensor, other.optimizer.state(name)[part]


def assert_same(one: Model, other: Model, **tolerance: float) -> None:
    """Equal to the bit, or within a tolerance of `torch.testing.assert_close`."""
    for mine, theirs in pairs(one, other):
        torch.testing.assert_close(mine, theirs, **(tolerance or {"atol": 0, "rtol": 0}))
