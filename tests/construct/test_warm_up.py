"""Kernels are compiled before a build, and reported; the Unigram trainer shows progress."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from numba import config, njit

from helpers.sample import SAMPLE
from modtok_cli.base.compiling import LABEL, compiling
from modtok_cli.base.progress import Silent, Task
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.construct.bpe_seq import SequentialBpe, bpe_seq
from modtok_cli.learn.unigram import TrainerLog
from modtok_cli.text.counts import WordCounts

needs_jit = pytest.mark.skipif(bool(config.DISABLE_JIT), reason="nothing is compiled")


class _Counter:
    def __init__(self) -> None:
        self.done = 0.0

    def advance(self, amount: float = 1) -> None:
        self.done += amount

    def describe(self, text: str) -> None:
        pass


class Recorder(Silent):
    """Labels of tasks in order, how far each came, and notes."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[tuple[str, _Counter]] = []
        self.notes: list[str] = []

    @contextmanager
    def task(self, label: str, total: float | None, unit: str) -> Iterator[Task]:
        counter = _Counter()
        self.tasks.append((label, counter))
        yield counter

    def note(self, text: str) -> None:
        self.notes.append(text)


def compile_something() -> None:
    njit(lambda x: x + 1)(1)


@needs_jit
def test_compiled_kernels_are_reported_once() -> None:
    progress = Recorder()
    with compiling(progress) as compilation:
        compile_something()
        compile_something()
    assert compilation.kernels == progress.tasks[0][1].done == 2
    assert [label for label, _ in progress.tasks] == [LABEL]
    assert len(progress.notes) == 1
    assert LABEL in progress.notes[0]
    compile_something()  # outside of the block
    with compiling(progress) as compilation:
        pass
    assert (compilation.kernels, len(progress.notes)) == (0, 1)


@needs_jit
def test_a_build_compiles_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the seconds of the first language include it."""
    warm_up, add = SequentialBpe.warm_up, SequentialBpe._add
    happened: list[str] = []

    def cold(self: SequentialBpe, counts: WordCounts) -> None:
        warm_up(self, counts)
        compile_something()
        happened.append("compiled")

    def adding(self: SequentialBpe, language: str, *rest: object) -> None:
        add(self, language, *rest)  # type: ignore[arg-type]
        happened.append(language)

    monkeypatch.setattr(SequentialBpe, "warm_up", cold)
    monkeypatch.setattr(SequentialBpe, "_add", adding)
    progress = Recorder()
    bpe_seq(["sw"], data=SAMPLE / "data", output=tmp_path / "tok", k=300, progress=progress)
    # The small example build has two languages.
    assert happened == ["compiled", "en", "fi", "sw"]
    assert progress.tasks[0][0] == LABEL
    assert [path.name for path in tmp_path.iterdir()] == ["tok"]


def test_a_build_with_loaded_kernels_says_nothing(tmp_path: Path) -> None:
    settings = {"data": SAMPLE / "data", "k": 300, "whole_characters": False}
    bpe_merge(["sw"], output=tmp_path / "first", **settings)  # type: ignore[arg-type]
    progress = Recorder()
    bpe_merge(["sw"], output=tmp_path / "second", progress=progress, **settings)  # type: ignore[arg-type]
    assert progress.notes == []
    assert LABEL not in [label for label, _ in progress.tasks]


def test_progress_of_the_unigram_trainer() -> None:
    log = TrainerLog(1000)
    seen = []
    for line in (
        "I0000 00:00:1795.4  18066 trainer_interface.cc:446] Loaded all 266119 sentences",
        "unigram_model_trainer.cc(514) LOG(INFO) Initialized 17600 seed sentencepieces",
        "I0000 00:00:1795.5  18066 unigram_model_trainer.cc:903] EM sub_iter=0 size=4400 obj=15.1",
        "I0000 00:00:1795.6  18066 unigram_model_trainer.cc:903] EM sub_iter=1 size=4400 obj=12.0",
        "I0000 00:00:1795.7  18066 unigram_model_trainer.cc:903] EM sub_iter=0 size=1100 obj=12.9",
    ):
        log.read([line])
        seen.append(log.percent)
    assert seen == [0.0, 20.0, 60.0, 60.0, 100.0]
    assert list(log.lines) == []
    log.read(["trainer_spec {", "  input: words.tsv", "Internal: vocabulary size is too high"])
    assert list(log.lines)[-1:] == ["Internal: vocabulary size is too high"]
    few = TrainerLog(1000)  # a text with fewer seeds than tokens
    few.read(["Initialized 500 seed pieces", "EM sub_iter=0 size=400 obj=1"])
    assert few.percent == 20.0
