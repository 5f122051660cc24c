"""Unigram builds that are killed: what was learned is kept, and the bytes are equal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from helpers.contents import contents
from helpers.python_processes import run_python
from helpers.said import Said
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.membership import Membership
from modtok_cli.construct import unigram as module
from modtok_cli.construct.journal import JournalDir
from modtok_cli.construct.states import UnigramState, em_mark
from modtok_cli.construct.unigram import unigram
from modtok_cli.construct.unigram_merge import unigram_merge
from modtok_cli.construct.work import Work
from modtok_cli.learn.em import EmStep, Estimate
from modtok_cli.learn.pieces import UNKNOWN, LearnedPieces, make_pieces
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.pretokenizer import UNIGRAM

DATA = SAMPLE / "data"
LANGUAGES = ["fi", "ne", "sw"]
K = 600


def build_until(point: str, number: int, output: Path) -> None:
    """A build that kills itself when so many models are kept, or EM of so many iterations."""
    learn, change, keep = module.learn_unigram, getattr(UnigramState, point), Work.keep
    left, changed = [number], []

    def telling(language, *rest, **more):  # type: ignore[no-untyped-def]
        print(language, flush=True)
        return learn(language, *rest, **more)

    def changing(self, *rest):  # type: ignore[no-untyped-def]
        change(self, *rest)
        changed.append(point)

    def keeping(self, *rest, **more):  # type: ignore[no-untyped-def]
        keep(self, *rest, **more)
        if changed:
            changed.clear()
            left[0] -= 1
            left[0] or os.kill(os.getpid(), signal.SIGKILL)

    module.learn_unigram = telling
    setattr(UnigramState, point, changing)
    Work.keep = keeping  # type: ignore[method-assign]
    unigram_merge(LANGUAGES, data=DATA, output=output, k=K, threads=1, journal_seconds=0)


def killed(point: str, number: int, output: Path) -> list[str]:
    """The languages that a process learns until it kills itself."""
    words = [__file__, point, number, output]
    done = run_python(words, stdout=subprocess.PIPE, text=True, cwd=output.parent)
    assert done.returncode == -signal.SIGKILL
    assert [path.name for path in output.parent.iterdir()] == [".tok.resume"]
    return done.stdout.split()


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The languages that are learned, in a directory without models of other builds."""
    monkeypatch.chdir(tmp_path)
    found: list[str] = []
    learn = module.learn_unigram

    def telling(language, *rest, **more):  # type: ignore[no-untyped-def]
        found.append(language)
        return learn(language, *rest, **more)

    monkeypatch.setattr(module, "learn_unigram", telling)
    return found


def test_kill_9_during_models_and_during_em(learned: list[str], tmp_path: Path) -> None:
    output = tmp_path / "tok"
    assert killed("add", 2, output) == ["fi", "ne"]
    assert killed("set_em", 2, output) == ["sw"]
    said = Said()
    unigram_merge(LANGUAGES, data=DATA, output=output, k=K, progress=said)
    assert learned == []
    assert "EM resumes after iteration 2" in said.notes
    assert [note for note in said.notes if note.startswith("EM ")][1].startswith("EM 3: ")
    assert [path.name for path in tmp_path.iterdir()] == ["tok"]
    unigram_merge(LANGUAGES, data=DATA, output=tmp_path / "whole", k=K)
    assert sorted(learned) == LANGUAGES
    assert contents(output) == contents(tmp_path / "whole")


SPECIALS = (UNKNOWN, "<s>")


def toy(language: str, *rest: object, **more: object) -> LearnedPieces:
    """A model that no trainer made."""
    pieces = [b"a", f" {language}".encode()]
    return make_pieces([language], SPECIALS, pieces, [-1.0, -2.5], Membership.everywhere(2, 1))


def test_failed_builds_resume_and_force_starts_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tried: list[str] = []
    failing = [True]

    def learn(language: str, *rest: object, **more: object) -> LearnedPieces:
        tried.append(language)
        if language == "sw" and failing[0]:
            raise ModtokError("the machine went away")
        return toy(language)

    monkeypatch.setattr(module, "learn_unigram", learn)

    def run(force: bool = False, k: int = K) -> list[str]:
        tried.clear()
        with suppress(ModtokError):
            unigram(
                LANGUAGES, data=DATA, output=tmp_path / "out", specials=["<s>"],
                default_specials=False, threads=1, k=k, force=force,
            )  # fmt: skip
        return list(tried)

    assert run() == LANGUAGES
    assert run() == ["sw"]
    assert run(k=K + 1) == LANGUAGES  # it is another build, and has the journal from now on
    assert run() == LANGUAGES
    assert run(force=True) == LANGUAGES
    assert run(force=True) == ["sw"]  # a forced build that was stopped goes on as well
    failing[0] = False
    assert run() == ["sw"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


COUNTS = WordCounts.from_pairs([(b"a", 3), (b" fi", 2)], UNIGRAM)
OTHER = WordCounts.from_pairs([(b"a", 3), (b" fi", 1)], UNIGRAM)
STATE = Estimate(np.linspace(0.1, 3, 260), (EmStep(1, -10.5, None, 0, 0.25),))


def toy_state() -> UnigramState:
    state = UnigramState(SPECIALS)
    state.add("fi", COUNTS, toy("fi"))
    state.set_em("mark", STATE)
    return state


def again(state: UnigramState, specials: tuple[str, ...] = SPECIALS) -> UnigramState:
    """What is read from what is written."""
    read = UnigramState(specials)
    read.restore(state.to_kept())
    return read


def test_models_of_other_text_are_not_used() -> None:
    read = again(toy_state())
    own = read.model("fi", COUNTS)
    assert own is not None
    assert own.token_membership.equals(toy("fi").token_membership)
    assert read.model("fi", OTHER) is None
    assert read.model("sw", COUNTS) is None
    assert read.em("of other pieces") is None


def test_arrays_of_other_shapes_are_refused() -> None:
    """A journal with a valid checksum, whatever wrote it: the kernels would trust it."""
    state, good = toy_state(), toy("fi")
    state.add("fi", COUNTS, replace(good, scores=np.full_like(good.scores, np.nan)))
    with pytest.raises(ValueError, match="not a model"):
        again(state)
    for expected, steps in (
        (np.zeros(260), STATE.steps),
        (np.ones((2, 2)), STATE.steps),
        (np.ones(260, np.float32), STATE.steps),
        (np.ones(260), ()),
        (np.ones(260), (EmStep("1", -10.5, None, 0, 0.25),)),  # type: ignore[arg-type]
    ):
        state = toy_state()
        state.set_em("mark", Estimate(expected, steps))
        with pytest.raises((ValueError, ModtokError)):
            again(state)


def test_a_damaged_journal_is_not_used(tmp_path: Path) -> None:
    journal = JournalDir(tmp_path / "tok", {"k": 300}, 0)
    journal.write(replace(toy_state().to_kept(), references={"en": b"{}"}))
    for name in ("journal.json", "state.safetensors", "en.json"):
        path = journal.directory / name
        sound = path.read_bytes()
        for place in range(0, len(sound), max(1, len(sound) // 40)):
            path.write_bytes(sound[:place] + bytes([sound[place] ^ 1]) + sound[place + 1 :])
            assert journal.read() is None, (name, place)
        path.write_bytes(sound[: len(sound) // 2])
        assert journal.read() is None
        path.write_bytes(sound)
        assert journal.read() is not None


def test_em_mark_depends_on_all_inputs() -> None:
    def mark(pieces=None, counts=COUNTS, factor=1.0, init="mean"):  # type: ignore[no-untyped-def]
        return em_mark(pieces or toy("fi"), {"fi": counts}, {"fi": factor}, {"init": init})

    marks = [mark(), mark(toy("sw")), mark(counts=OTHER), mark(factor=2.0), mark(init="uniform")]
    fi = toy("fi")
    for name in ("token_data", "token_offsets", "scores"):
        marks.append(mark(replace(fi, **{name: getattr(fi, name) + 1})))
    marks.append(mark(replace(fi, token_membership=Membership.everywhere(fi.size, 2))))
    assert mark() == mark()
    assert len(set(marks)) == 9


if __name__ == "__main__":
    build_until(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
