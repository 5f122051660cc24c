"""What a build leaves when the machine, or the user, ends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.python_processes import run_python
from helpers.sample import SAMPLE
from modtok_cli.base import memory
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Silent
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.construct.corpora import count_language
from modtok_cli.text.reading import Reading

# No file may grow beyond 20,000 bytes: writing fails half way, as on a full disk.
SMALL_FILES = """
import resource
from modtok_cli.__main__ import main
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
main()
"""
COMMAND = ["-c", SMALL_FILES, "bpe-seq", "--data", str(SAMPLE / "data")]


def test_full_disk(tmp_path: Path) -> None:
    command = [*COMMAND, "--langs", "en,fi", "-k", "2000", "-o", str(tmp_path / "tok")]
    done = run_python(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "tok: cannot write: File too large; nothing was changed" in done.stderr
    assert list(tmp_path.iterdir()) == []


INTERRUPTED = """
import os, signal, threading
from modtok_cli.__main__ import main
from modtok_cli.learn.sequential import SequentialLearner
real = SequentialLearner.add
def add(self, language, *rest, **more):  # the second of three languages: one is still counted
    if language == "fi":
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
    result = real(self, language, *rest, **more)
    if language == "fi":
        timer.join()
    return result
SequentialLearner.add = add
main()
"""


def test_ctrl_c(tmp_path: Path) -> None:
    """The signal comes in the middle of learning, while another thread counts."""
    data = tmp_path / "data"
    data.mkdir()
    text = "".join(f"word{i} other{i * 7}\n" for i in range(40_000))
    for language in ("en", "fi", "fr"):
        (data / f"{language}.txt").write_text(text)
    command = ["-c", INTERRUPTED, "bpe-seq", "-k", "15000", "--data", str(data)]
    done = run_python([*command, "-o", str(tmp_path / "tok")], capture_output=True, text=True)
    assert done.returncode == 130
    assert done.stdout == ""
    assert done.stderr.count("\n") <= 1
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_overlong_words_are_ignored_with_a_warning(tmp_path: Path) -> None:
    place = tmp_path / "en.txt"
    place.write_text("a few words " + "x" * 65_537 + " and more\n")
    progress = Silent()
    counts = count_language("en", [place], Reading(), progress)
    assert counts.words() == [b" and", b" few", b" more", b" words", b"a"]
    assert "en: ignoring 1 word of more than 65,536 bytes" in progress.warnings[0]


def test_memory_is_checked_before_learning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1000)
    with pytest.raises(ModtokError, match=r"learning en needs about .* GiB of memory"):
        bpe_seq(["en"], data=SAMPLE / "data", output=tmp_path / "tok", k=300)
    assert list(tmp_path.iterdir()) == []
