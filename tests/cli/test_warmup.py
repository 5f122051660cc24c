"""`modtok warmup` goes through every group of kernels."""

from __future__ import annotations

import pytest

from modtok_cli.base.errors import ModtokError
from modtok_cli.cli import warmup as module
from modtok_cli.cli.kernels import is_warm, kernels
from modtok_cli.cli.warmup import GROUPS, Group, warmup


@pytest.mark.parametrize("processes", [1, 3])
def test_a_group_waits_for_those_it_builds_on(processes: int, monkeypatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(module, "_run", lambda name: order.append(name) or 0.5)
    assert warmup(processes=processes) == dict.fromkeys(order, 0.5)
    assert sorted(order) == sorted(GROUPS)
    for name, group in GROUPS.items():
        assert all(order.index(other) < order.index(name) for other in group.after)


def test_every_kernel_is_compiled() -> None:
    seconds = warmup()
    assert set(seconds) == set(GROUPS)
    assert all(value > 0 for value in seconds.values())
    assert [kernel for kernel in kernels() if not is_warm(kernel)] == []


def test_a_group_that_fails_is_named(monkeypatch) -> None:
    monkeypatch.setattr(module, "GROUPS", {"none": Group(lambda data: None)})
    with pytest.raises(ModtokError, match=r"^warmup: the none kernels failed: KeyError: 'none'$"):
        warmup()
