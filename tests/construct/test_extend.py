"""`--append` and `--remove`: new versions, old versions kept, locks, the proof."""

from __future__ import annotations

import fcntl
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.contents import contents
from helpers.said import Said
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.locks import locked
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.construct.bpe_seq import SequentialBpe, bpe_seq
from modtok_cli.tokenizer.containment import Containment, containment
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer

DATA = SAMPLE / "data"
LEARNERS = pytest.mark.parametrize("learn", [bpe_seq, bpe_merge], ids=["bpe-seq", "bpe-merge"])
Learn = Callable[..., Any]


@LEARNERS
def test_append_writes_a_new_version(learn: Learn, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    learn(["en", "fi"], data=DATA, output=old, k=300)
    before, progress = contents(old), Said()
    learn(data=DATA, append=["sw"], tokenizer=old, output=new, progress=progress)
    assert contents(old) == before
    base, extended = ModularTokenizer.load(old), ModularTokenizer.load(new)
    assert extended.languages == ("en", "fi", "sw")
    assert containment(extended, base).holds
    proof = f"all {base.size:,} token ids and {len(base.merges):,} merges unchanged"
    assert progress.notes == [f"{new}: {proof}"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]
    assert len(contents(new / "references")) == 3
    # The same command again, and another one with the same output.
    learn(data=DATA, append=["sw"], tokenizer=old, output=new, progress=progress)
    assert "already finished" in progress.warnings[0]
    with pytest.raises(UsageError, match="exists with other settings"):
        learn(data=DATA, append=["fr"], tokenizer=old, output=new)
    assert ModularTokenizer.load(new).signature == extended.signature


@LEARNERS
def test_in_place_keeps_the_old_version(learn: Learn, tmp_path: Path) -> None:
    place = tmp_path / "tok"
    learn(["en", "fi"], data=DATA, output=place, k=300)
    before, progress = contents(place), Said()
    kept = tmp_path / f"tok.{ModularTokenizer.load(place).signature}"
    learn(data=DATA, append=["sw"], output=place, progress=progress)
    assert contents(kept) == before
    assert progress.notes[0] == f"previous version kept in {kept}"
    assert "merges unchanged" in progress.notes[1]
    assert ModularTokenizer.load(place).languages == ("en", "fi", "sw")


def test_remove_writes_a_new_version(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    bpe_merge(["en", "fi", "sw"], data=DATA, output=old, k=300)
    before = contents(old)
    bpe_merge(remove=["fi"], tokenizer=old, output=new)
    assert contents(old) == before
    assert ModularTokenizer.load(new).languages == ("en", "sw")
    with pytest.raises(UsageError, match="exists with other settings"):
        bpe_merge(remove=["sw"], tokenizer=old, output=new)
    progress = Said()
    bpe_merge(remove=["fi"], output=old, progress=progress)
    (kept,) = tmp_path.glob("old.*")
    assert contents(kept) == before
    assert progress.notes == [f"previous version kept in {kept}"]


def test_a_build_with_budgets_by_language_is_known_as_finished(tmp_path: Path) -> None:
    """Also where a budget is that of all, and after languages were removed."""
    old, other, new = tmp_path / "old", tmp_path / "other", tmp_path / "new"
    for learn, where in (
        (bpe_merge, {"languages": ["en", "fi"], "k": "300,en=300,fi=310", "output": old}),
        (bpe_seq, {"languages": ["en", "fi"], "k": "300,fi=300", "output": other}),
        (bpe_seq, {"append": ["sw"], "tokenizer": other, "k": "310,sw=300", "output": new}),
        (bpe_merge, {"remove": ["en"], "tokenizer": old, "output": tmp_path / "rest"}),
        (bpe_merge, {"remove": ["fi"], "tokenizer": old, "output": tmp_path / "en"}),
    ):
        learn(data=DATA, **where)
        before, progress = contents(tmp_path), Said()
        learn(data=DATA, progress=progress, **where)
        assert "already finished with these settings" in progress.warnings[0]
        assert contents(tmp_path) == before
    with pytest.raises(UsageError, match="two budgets for 'fi'; omit fin"):
        bpe_seq(data=DATA, k="300,fi=310,fin=320", output=tmp_path / "twice")
    cards = [(each / "README.md").read_text() for each in (old, other, new)]
    made = ("merge --langs en,fi -k 300,fi=310", "seq --langs en,fi -k 300",
            "seq --langs en,fi,sw -k 300")  # fmt: skip
    assert all(f"modtok bpe-{each}\n" in card for each, card in zip(made, cards, strict=True))


def test_other_settings_than_those_of_the_build_are_refused(tmp_path: Path) -> None:
    for learn in (bpe_seq, bpe_merge):
        learn(["en", "fi"], data=DATA, output=tmp_path / learn.__name__, k=300)
    before = contents(tmp_path)
    append, remove = {"append": ["sw"]}, {"remove": ["fi"]}
    for learn, change, told, said in (
        (bpe_seq, append, {"k": "fi=301"}, "k: no language 'fi'; expected one of sw"),
        (bpe_seq, append, {"fair": DATA}, "fair and append exclude each other"),
        (bpe_merge, remove, {"k": 301}, r"k: .*bpe_merge was built with 300, not with 301; omit k"),
        (bpe_merge, remove, {"k": "en=301"}, "remove and k by language exclude each other"),
        (bpe_seq, append, {"order": "size"}, "order: .* with alphabetical, not with size"),
        (bpe_seq, append, {"passes": 2}, "passes: .* with 1, not with 2"),
        (bpe_seq, append, {"max_unspaced": 5}, "max_unspaced: .* with 16, not with 5"),
        (bpe_seq, append, {"segmentation": "fewest-tokens"}, "segmentation: .* with merges, not"),
        (bpe_merge, remove, {"specials": ["<s>"]}, r"specials: .* <\|pad\|>, not with .* <s>"),
        (bpe_merge, remove, {"whole_characters": True}, "whole_characters: .* built without it"),
    ):
        with pytest.raises(UsageError, match=said):
            learn(data=DATA, output=tmp_path / learn.__name__, **change, **told)
    assert contents(tmp_path) == before


def test_a_failed_extension_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "tok"
    bpe_seq(["en"], data=DATA, output=place, k=300)
    before = contents(place)
    broken = Containment(3, 0, "token 3 of 300 is another one")
    with monkeypatch.context() as patch:
        patch.setattr("modtok_cli.construct.outputs.containment", lambda *pair: broken)
        with pytest.raises(ModtokError, match="does not contain the old one: token 3"):
            bpe_seq(data=DATA, append=["sw"], output=place)

    def fail(*rest: object) -> None:
        raise ModtokError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(ModularTokenizer, "save", fail)
        with pytest.raises(ModtokError, match="disk full"):
            bpe_seq(data=DATA, append=["sw"], output=place)
    assert contents(place) == before
    assert [path.name for path in tmp_path.iterdir()] == ["tok"]


def test_of_two_appends_at_once_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second starts while the first learns; afterwards it succeeds, and nothing is lost."""
    place = tmp_path / "tok"
    bpe_seq(["en"], data=DATA, output=place, k=300)
    learning, go_on = threading.Event(), threading.Event()
    learn = SequentialBpe.learn

    def slow(self: SequentialBpe, work: Any) -> None:
        learning.set()
        assert go_on.wait(600)
        learn(self, work)

    monkeypatch.setattr(SequentialBpe, "learn", slow)
    failures: list[BaseException] = []

    def first() -> None:
        try:
            bpe_seq(data=DATA, append=["fi"], output=place)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=first)
    thread.start()
    try:
        assert learning.wait(600)
        with pytest.raises(ModtokError, match="tok: is being written by another process; wait"):
            bpe_seq(data=DATA, append=["sw"], output=place)
    finally:
        go_on.set()
        thread.join()
    assert failures == []
    bpe_seq(data=DATA, append=["sw"], output=place)
    assert ModularTokenizer.load(place).languages == ("en", "fi", "sw")


def test_of_two_builds_of_one_new_output_the_second_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both began when it did not exist yet."""
    old, new = tmp_path / "old", tmp_path / "new"
    bpe_seq(["en"], data=DATA, output=old, k=300)
    learn = SequentialBpe.learn

    def overtaken(self: SequentialBpe, work: Any) -> None:
        learn(self, work)
        monkeypatch.setattr(SequentialBpe, "learn", learn)
        bpe_seq(data=DATA, append=["fi"], tokenizer=old, output=new)

    monkeypatch.setattr(SequentialBpe, "learn", overtaken)
    with pytest.raises(ModtokError, match="new: was written by another process"):
        bpe_seq(data=DATA, append=["sw"], tokenizer=old, output=new)
    assert ModularTokenizer.load(new).languages == ("en", "fi")


def test_a_lock_of_a_replaced_directory_does_not_count(tmp_path: Path) -> None:
    """Opened before another process replaced it, locked after that one ended."""
    place, real = tmp_path / "tok", fcntl.flock
    place.mkdir()

    def replace_first(handle: int, operation: int) -> None:
        shutil.rmtree(place)
        place.mkdir()
        real(handle, operation)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fcntl, "flock", replace_first)
        with pytest.raises(ModtokError, match="another process"), locked(place):
            pass
    with locked(place), locked(tmp_path / "absent"):
        pass


def test_the_tokenizer_option_requires_a_change(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="tokenizer requires append"):
        bpe_seq(["en"], data=DATA, tokenizer=tmp_path, output=tmp_path / "tok")


def test_a_budget_out_of_range_is_a_usage_error(tmp_path: Path) -> None:
    for k in (1 << 31, 10**20):
        with pytest.raises(UsageError, match=f"k: expected at most .*, got {k}"):
            bpe_seq(["en"], data=DATA, output=tmp_path / "tok", k=k)
    report = bpe_seq(["sw"], data=DATA, output=tmp_path / "tok", k=1 << 26, references=False)
    assert report.rows()[0]["tokens"] < 100_000
