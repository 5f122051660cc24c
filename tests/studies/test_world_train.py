"""Several runs in several processes: each in its own, ended by an error, never waiting."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from modtok_cli.base.errors import ModtokError
from modtok_cli.studies.world.train import train_runs
from modtok_cli.training.settings import RunSettings


def write_pid(run: RunSettings) -> None:
    """In place of training."""
    (run.runs / str(run.name)).write_text(str(os.getpid()))


def fail_or_wait(run: RunSettings) -> None:
    """One run fails once the other has begun; that one would take a minute."""
    write_pid(run)
    if run.name == "0":
        while not (run.runs / "1").exists():
            time.sleep(0.01)
        raise ModtokError("no more", where="here")
    time.sleep(60)


def some(tmp_path: Path, number: int) -> list[RunSettings]:
    return [replace(RunSettings(runs=tmp_path), name=str(name)) for name in range(number)]


def test_each_run_has_a_process_of_its_own(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    train_runs(some(tmp_path, 3), workers=2, train=write_pid)
    found = {int(path.read_text()) for path in tmp_path.iterdir()}
    assert len(found) == 3
    assert os.getpid() not in found


def test_an_error_ends_the_others(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    began = time.monotonic()
    with pytest.raises(ModtokError, match="no more"):
        train_runs(some(tmp_path, 4), workers=2, train=fail_or_wait)
    assert time.monotonic() - began < 50
    assert {path.name for path in tmp_path.iterdir()} <= {"0", "1", "2"}
