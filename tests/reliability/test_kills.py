"""kill -9 before changes to files, without a clock (see `helpers.kill_steps`).

`python -m benchmarks kills` kills at random moments of all commands that write.
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.external_tokenizers import external_tokenizer
from helpers.jobs import ELSEWHERE, JOBS
from helpers.python_processes import run_python
from helpers.sample import sample_text
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import atomic_directory, remove_directory, scratch_directory
from modtok_cli.cli.main import command_tree
from modtok_cli.cli.tree import nodes
from modtok_cli.construct.bpe_seq import bpe_seq

OUTPUTS = {"output", "plot", "runs", "examples"}


def test_kill_benchmark_covers_every_command_that_writes() -> None:
    writing = {
        " ".join(node.path)
        for node in nodes(command_tree())
        if not node.is_group and OUTPUTS & {line.name for line in node.lines}
    }
    known = {job.command for job in JOBS if job.outputs} | ELSEWHERE.keys()
    assert writing - known == set()
    assert known - writing == set()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("killed") / "base"
    data = sample_text(root / "data", "en", "fi")
    bpe_seq(["en"], data=data, output=root / "tokenizer", k=300, references=False)
    (root / "published.json").write_bytes(external_tokenizer("byte-level"))
    return root


@pytest.mark.parametrize(
    ("stride", "words"),
    [
        (4, "bpe-seq --langs en,fi -k 320 --force --threads 1"),
        (4, "bpe-seq --append fi -t published.json -k 60 -o grown --threads 1"),
        (1, "extract --langs en -o en.json"),
        (2, "corpus count --langs en -o tables --threads 1"),
    ],
)
def test_kill_before_each_file_operation(base: Path, stride: int, words: str) -> None:
    """The old or the new tokenizer is complete, and the same call then succeeds."""
    command = ["-m", "helpers.kill_steps", str(base), str(stride), *words.split()]
    done = run_python(command, capture_output=True, text=True)
    *rows, last = map(json.loads, done.stdout.splitlines())
    assert done.returncode == 0, done.stderr
    assert last["status"] == 0
    assert rows
    for row in rows:
        assert row["between"] == [], row
        assert row["again"] in (0, 2), row  # 2: it was done, and says so
        assert row["same"], row
        assert row["left"] == [], row
        assert row["again"] == 0 or row["state"] == "new", row


def _reaped() -> int:
    """Id of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def test_moved_output_is_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without an exchange in one step there is a moment in which neither exists."""
    ended = _reaped()

    def kill(pid: int, _: int) -> None:
        raise ProcessLookupError if pid == ended else PermissionError

    monkeypatch.setattr(os, "kill", kill)
    old = tmp_path / f".tok.partial-old-{ended}"
    old.mkdir()
    (old / "manifest.json").write_text("old")
    (other := tmp_path / ".tok.partial-1").touch()  # a process of somebody else
    with pytest.raises(RuntimeError), atomic_directory(tmp_path / "tok"):
        raise RuntimeError
    assert (tmp_path / "tok" / "manifest.json").read_text() == "old"
    assert {*tmp_path.iterdir()} == {tmp_path / "tok", other}


def test_replace_without_exchange_system_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modtok_cli.base.files._renamed", lambda *paths: False)
    for text in ("old", "new"):
        with atomic_directory(tmp_path / "tok") as beside:
            (beside / "file").write_text(text)
    assert (tmp_path / "tok" / "file").read_text() == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["tok"]


def test_remove_directory_is_atomic(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (target / "kept").write_text("x")
    (tmp_path / "run").symlink_to(target)
    remove_directory(tmp_path / "run")
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]
    remove_directory(target)
    assert list(tmp_path.iterdir()) == []


def test_temporary_directories_of_killed_runs_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("modtok_cli.base.files.gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / f"modtok-{_reaped()}-abc").mkdir()
    mine = tmp_path / f"modtok-{os.getpid()}-other"
    mine.mkdir()
    with scratch_directory() as place:
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([mine.name, place.name])
    assert list(tmp_path.iterdir()) == [mine]


def test_a_full_disk_of_temporary_files_is_named() -> None:
    """The error of a write names no file, as that of standard output."""
    with (
        pytest.raises(ModtokError, match=r"modtok-.*: cannot write: No space left.*TMPDIR"),
        scratch_directory(),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_an_error_of_another_file_is_not_one_of_temporary_files() -> None:
    with pytest.raises(FileNotFoundError, match="/elsewhere/a"), scratch_directory():
        Path("/elsewhere/a").read_bytes()


@pytest.mark.skipif(sys.platform != "linux", reason="by the kernel of Linux")
def test_child_ends_with_its_parent(tmp_path: Path) -> None:
    """kill -9 of a command must not leave its trainer running."""
    os.mkfifo(words := tmp_path / "words")  # the trainer waits for its content
    trainer = [sys.executable, "-m", "modtok_cli.learn.unigram_trainer", words, "p", "9", "1", "1"]
    text = f"import subprocess; subprocess.run({[*map(str, trainer)]})"
    parent = subprocess.Popen([sys.executable, "-c", text])
    with words.open("wb") as file:
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        (poll := select.poll()).register(file, 0)
        assert poll.poll(60_000)  # nobody reads
