"""`modtok warmup` goes through every group of kernels."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from helpers.sample import SAMPLE
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
def test_every_group_is_compiled_once_the_longest_first(processes: int, monkeypatch) -> None:
    order: list[str] = []
    monkeypatch.setattr(module, "_workers", lambda count: nullcontext())
    monkeypatch.setattr(module, "_run", lambda name, idle: order.append(name) or 0.5)
    assert warmup(processes=processes) == dict.fromkeys(order, 0.5)
    assert sorted(order) == sorted(GROUPS)
    if processes == 1:
        assert order == list(GROUPS)
    seconds = [group.seconds for group in GROUPS.values()]
    assert seconds == sorted(seconds, reverse=True)


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

    groups = {"a": Group(1), "b": Group(3)}
    monkeypatch.setattr(module, "GROUPS", groups)
    monkeypatch.setattr(module, "TICK", 0.01)
    monkeypatch.setattr(module, "_workers", lambda count: nullcontext())
    monkeypatch.setattr(module, "_run", lambda name, idle: time.sleep(0.05) or 0.05)
    warmup(progress=Moves())
    assert len([move for move in moves if move > 0]) > 4
    assert min(moves) >= 0
    assert sum(moves) == pytest.approx(100)
    assert (duration(("a", "b"), 2), duration(("b",), 2)) == (4, 4)


@pytest.mark.parametrize("command", NEEDS)
def test_a_command_has_its_groups_compiled_once(command: str, monkeypatch) -> None:
    ran: list[str] = []
    progress = Notes()
    monkeypatch.setattr(module, "_workers", lambda count: nullcontext())
    monkeypatch.setattr(module, "_run", lambda name, idle: ran.append(name) or 0.5)
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
    monkeypatch.setattr(module, "GROUPS", {"none": Group(1)})
    with pytest.raises(ModtokError, match=r"^warmup: the none kernels failed: KeyError: 'none'$"):
        warmup()


def test_a_process_that_ends_is_named(monkeypatch) -> None:
    monkeypatch.setattr(module.sys, "executable", "false")
    with pytest.raises(ModtokError, match=r"^warmup: the .* kernels failed: exit status 1$"):
        warmup()


_LOADS = """
import os, sys
from numba.core import caching

def load(self, sig, context):
    names.append(self._py_func.__module__.split(".")[-1] + "." + self._py_func.__name__)
    return load_overload(self, sig, context)

names = []
load_overload, caching.Cache.load_overload = caching.Cache.load_overload, load
if sys.argv[1] == "groups":
    from modtok_cli.cli.warmup import compile_group
    for name in sys.argv[2:]:
        compile_group(name)
else:
    from modtok_cli.cli.main import main
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
print(*sorted(set(names)), file=sys.stderr)
"""


def loaded(tmp_path: Path, *words: str) -> list[str]:
    # Not a forked process: it would have some kernels already.
    words = (sys.executable, "-c", _LOADS, *words)
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()[-1].split()


def test_commands_compile_the_kernels_that_they_use(tmp_path: Path) -> None:
    """No others, and how many: each takes up to some seconds at first use."""
    data = tmp_path / "data"
    data.mkdir()
    for language in ("en", "fi"):
        shutil.copy(SAMPLE / "data" / f"{language}.jsonl", data)
    text = str(SAMPLE / "parallel" / "en.txt")
    numbers = {}
    of_groups: dict[tuple[str, ...], list[str]] = {}
    for command, words in {
        "bpe-seq": ("-k", "400", "-o", "seq", "--quiet"),
        "bpe-merge": ("-k", "400", "-o", "merge", "--quiet"),
        "encode": ("-t", "seq", text),
        "nsl": ("-t", "seq", text),
        "origin": ("-t", "seq", text),
        "extract": ("-t", "seq", "--langs", "en,fi", "-o", "plain", "--quiet"),
        "adopt": ("plain", "-o", "adopted", "--quiet"),
        "explore": ("seq", "plain", "-o", "page.html"),
    }.items():
        used = loaded(tmp_path, command, *words)
        groups = NEEDS.get(command, ())
        if groups not in of_groups:
            of_groups[groups] = loaded(tmp_path, "groups", *groups) if groups else []
        assert used == of_groups[groups]
        numbers[command] = len(used)
    expected = {"bpe-seq": 13, "bpe-merge": 16, "encode": 8, "nsl": 14, "origin": 14, "adopt": 17}
    assert numbers == {**expected, "extract": 0, "explore": 0}
