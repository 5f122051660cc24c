"""`modtok warmup` goes through every group of kernels."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Silent
from modtok_cli.cli import warmup as module
from modtok_cli.cli.kernels import is_warm, kernels
from modtok_cli.cli.warmup import GROUPS, NEEDS, Group, duration, prepare, warmup


class Notes(Silent):
    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


@pytest.mark.parametrize("processes", [1, 3])
def test_a_group_waits_for_those_it_builds_on(processes: int, monkeypatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(module, "_run", lambda name: order.append(name) or 0.5)
    assert warmup(processes=processes) == dict.fromkeys(order, 0.5)
    assert sorted(order) == sorted(GROUPS)
    for name, group in GROUPS.items():
        assert all(order.index(other) < order.index(name) for other in group.after)


def test_every_kernel_is_compiled() -> None:
    if "TEST_COLD_KERNELS" in os.environ:  # tests/conftest.py has run it, on no kernel
        assert os.environ["TEST_COLD_KERNELS"] == ""
        return
    seconds = warmup()
    assert set(seconds) == set(GROUPS)
    assert all(value > 0 for value in seconds.values())
    assert [kernel for kernel in kernels() if not is_warm(kernel)] == []


def test_the_bar_moves_with_time_and_ends_full(monkeypatch) -> None:
    moves: list[float] = []

    class Moves(Notes):
        @contextmanager
        def task(self, label: str, total: float | None, unit: str) -> Iterator[Any]:
            assert (total, unit) == (100, "%")
            yield SimpleNamespace(advance=moves.append)

    groups = {"a": Group(lambda data: None, 1), "b": Group(lambda data: None, 3, after=("a",))}
    monkeypatch.setattr(module, "GROUPS", groups)
    monkeypatch.setattr(module, "TICK", 0.01)
    monkeypatch.setattr(module, "_run", lambda name: time.sleep(0.05) or 0.05)
    warmup(progress=Moves())
    assert len([move for move in moves if move > 0]) > 4
    assert min(moves) >= 0
    assert sum(moves) == pytest.approx(100)
    assert (duration(("a", "b"), 2), duration(("b",), 2)) == (4, 3)


@pytest.mark.parametrize("command", NEEDS)
def test_a_command_has_its_groups_compiled_once(command: str, monkeypatch) -> None:
    ran: list[str] = []
    progress = Notes()
    monkeypatch.setattr(module, "_run", lambda name: ran.append(name) or 0.5)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(module, "storage", lambda: (Path(), ""))
    assert prepare(command, progress)
    assert sorted(ran) == sorted(NEEDS[command])
    (note,) = progress.notes
    assert re.fullmatch(r"compiling kernels, once, about \d+ s: later starts load .*", note)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 1)
    assert not prepare(command, progress)
    monkeypatch.setattr(module.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(module, "storage", lambda: (None, "nothing can be written"))
    assert not prepare(command, progress)
    assert (len(ran), len(progress.notes)) == (len(NEEDS[command]), 1)


def test_other_commands_compile_what_they_need(monkeypatch) -> None:
    assert not prepare("extract", Notes())


def test_a_group_that_fails_is_named(monkeypatch) -> None:
    monkeypatch.setattr(module, "GROUPS", {"none": Group(lambda data: None, 1)})
    with pytest.raises(ModtokError, match=r"^warmup: the none kernels failed: KeyError: 'none'$"):
        warmup()
