"""`bpe_seq`: outputs, append, resume, errors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from helpers.contents import contents
from helpers.sample import sample_text
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Silent
from modtok_cli.construct.bpe_seq import SequentialBpe, bpe_seq
from modtok_cli.construct.journal import JournalDir, JournalState
from modtok_cli.text.corpus import write_counts
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer

LANGUAGES = ["en", "fi", "fr"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return sample_text(tmp_path / "data", *LANGUAGES, "sw")


def test_same_bytes_for_any_threads_and_order_of_files_and_from_count_tables(
    data: Path, tmp_path: Path
) -> None:
    bpe_seq(LANGUAGES, data=data, output=tmp_path / "plain", k=500)
    write_counts(LANGUAGES, data=data, output=tmp_path / "counts")
    lines = (data / "fr.jsonl").read_bytes().splitlines(keepends=True)
    (data / "fr.jsonl").unlink()
    (data / "fr").mkdir()
    (data / "fr" / "b.jsonl").write_bytes(b"".join(lines[:5]))
    (data / "fr" / "a.jsonl").write_bytes(b"".join(lines[5:]))
    for name, place, threads in (("1", data, 1), ("3", data, 3), ("t", tmp_path / "counts", None)):
        bpe_seq(LANGUAGES, data=place, output=tmp_path / name, k=500, threads=threads)
        assert contents(tmp_path / "plain") == contents(tmp_path / name)


def test_same_bytes_for_any_hash_seed(data: Path, tmp_path: Path) -> None:
    subprocess.run(
        [
            *(sys.executable, "-m", "modtok_cli", "-q", "bpe-seq", "--langs", "en,fi"),
            *("-k", "400", "--data", str(data), "-o", str(tmp_path / "there")),
        ],
        env={**os.environ, "PYTHONHASHSEED": "1"},
        check=True,
        stdout=subprocess.DEVNULL,
    )
    # Here it is another seed, drawn when pytest began.
    bpe_seq(["en", "fi"], data=data, output=tmp_path / "here", k=400)
    assert contents(tmp_path / "here") == contents(tmp_path / "there")


def test_append_keeps_settings(data: Path, tmp_path: Path) -> None:
    """The order too, which other builds compare; what is appended comes as it is named."""
    place = tmp_path / "tok"
    bpe_seq(["fi", "en"], data=data, output=place, k=300, order="size")
    before = ModularTokenizer.load(place)
    told = {"k": 300, "order": "size", "passes": 1, "segmentation": "merges", "max_unspaced": 16}
    bpe_seq(data=data, output=place, append=["sw"], specials=before.vocabulary.specials, **told)  # type: ignore[arg-type]
    bpe_seq(data=data, output=place, append=["fr"])
    after = ModularTokenizer.load(place)
    assert after.settings == before.settings
    assert after.settings["order"] == "size"
    assert after.languages == (*before.languages, "sw", "fr")


def test_a_check_keeps_the_tokenizer_to_extend(data: Path, tmp_path: Path) -> None:
    bpe_seq(["en", "fi"], data=data, output=tmp_path / "tok", k=300)
    base = ModularTokenizer.load(tmp_path / "tok")
    settings = SequentialBpe.settings_of(base)
    learner = SequentialBpe(base.k, base.vocabulary.specials, settings)
    learner.start(base)
    learner.check()
    assert learner.state().notes["languages"] == ("en", "fi")


def test_orders(data: Path, tmp_path: Path) -> None:
    same = {"data": data, "k": 300}
    for order, expected in (
        ("alphabetical", ("en", "fr", "sw")),
        ("given", ("sw", "fr", "en")),
        ("size", ("fr", "sw", "en")),
    ):
        progress = Silent()
        for given in (["swh_Latn", "fra_Latn", "eng"], ["sw", "fr", "en"]):
            bpe_seq(given, output=tmp_path / order, order=order, progress=progress, **same)
        assert "already finished" in progress.warnings[0]
        assert ModularTokenizer.load(tmp_path / order).languages == expected
    with pytest.raises(UsageError, match="with other settings"):
        bpe_seq(["en", "fr", "sw"], output=tmp_path / "given", order="given", **same)
    bpe_seq(append=["fin_Latn"], data=data, output=tmp_path / "given")
    assert ModularTokenizer.load(tmp_path / "given").languages == ("sw", "fr", "en", "fi")


def test_an_appended_language_changes_the_order(data: Path, tmp_path: Path) -> None:
    bpe_seq(["fi", "sw"], data=data, output=tmp_path / "tok", k=300)
    bpe_seq(append=["en"], data=data, output=tmp_path / "tok")
    with pytest.raises(UsageError, match=r"other settings \(bpe-seq; fi, sw, en"):
        bpe_seq(["en", "fi", "sw"], data=data, output=tmp_path / "tok", k=300)


def test_bad_input_leaves_no_files(data: Path, tmp_path: Path) -> None:
    (data / "fi.jsonl").write_bytes(b'{"text": "ok"}\n{"text": 3}\n')
    with pytest.raises(ModtokError, match=r"fi\.jsonl:2"):
        bpe_seq(LANGUAGES, data=data, output=tmp_path / "tok", k=500)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_special_tokens(data: Path, tmp_path: Path) -> None:
    for own in ({}, {"default_specials": False}):
        with pytest.raises(UsageError, match="single word"):
            bpe_seq(["en"], data=data, output=tmp_path / "tok", k=300, specials=["bos"], **own)
    with pytest.raises(UsageError, match=r"comma between .* \['<a>', '<b>'\]"):
        bpe_seq(["en"], data=data, output=tmp_path / "tok", k=300, specials=["<a>,<b>"])
    defaults = ("<|endoftext|>", "<|pad|>")
    for name, options, expected in (
        ("added", {"specials": ["<s>", "<|pad|>"]}, (*defaults, "<s>")),
        ("own", {"specials": ["<s>", "</s>"], "default_specials": False}, ("<s>", "</s>")),
        ("none", {"default_specials": False}, ()),
    ):
        bpe_seq(["en"], data=data, output=tmp_path / name, k=300, **options)  # type: ignore[arg-type]
        assert ModularTokenizer.load(tmp_path / name).vocabulary.specials == expected


def test_journal_interval_and_force(tmp_path: Path) -> None:
    output = tmp_path / "tok"
    place = JournalDir(output, {"k": 1}, 1e9)
    assert not place.due(6e8)
    assert place.due(6e8)  # of two at a time, neither of which is long
    place.write(JournalState({"a": np.arange(3)}, {}, {}))
    assert not place.due(6e8)
    assert place.read() is not None
    forced = JournalDir(output, {"k": 1}, 1e9, force=True)
    assert forced.read() is None
    forced.write(JournalState({"a": np.arange(3)}, {}, {}))
    assert forced.read() is not None  # the same call again goes on
    assert place.read() is not None


def test_a_large_state_is_written_less_often(tmp_path: Path) -> None:
    place = JournalDir(tmp_path / "tok", {"k": 1}, 1e9)
    saved = JournalState({"a": np.arange(3)}, {})
    place.write(saved, seconds=5e8)
    assert not place.due(4.4e9)
    assert place.due(0.2e9)
    place.write(saved, seconds=5e9)
    assert not place.due(9e9)
    assert place.due(1e9)  # ten intervals at most
    place.write(saved)
    assert place.due(1e9)


@pytest.mark.parametrize("half", [False, True])
def test_a_stale_journal_is_removed(data: Path, tmp_path: Path, half: bool) -> None:
    """Killed after the output was in place, or while the journal was written or removed."""
    place = tmp_path / "tok"
    bpe_seq(["en", "fi"], data=data, output=place, k=300)

    def leave(force: bool) -> None:
        journal = JournalDir(place, {"k": 300}, force=force)
        journal.write(JournalState({"a": np.arange(3)}, {}))
        shutil.copytree(journal.directory, tmp_path / "..tok.resume.partial-999999999")
        if half:
            (journal.directory / "journal.json").unlink()

    leave(force=False)
    bpe_seq(["en", "fi"], data=data, output=place, k=300)
    assert [path.name for path in tmp_path.glob(".*")] == []
    leave(force=False)
    with pytest.raises(UsageError, match="already has fi"):
        bpe_seq(data=data, output=place, append=["fi"])
    assert [path.name for path in tmp_path.glob(".*")] == []
    leave(force=True)  # of a build that is to replace what is there: it may go on
    bpe_seq(["en", "fi"], data=data, output=place, k=300)
    assert (tmp_path / ".tok.resume").exists() is not half
    bpe_seq(["en", "fi"], data=data, output=place, k=300, force=True)
    assert [path.name for path in tmp_path.glob(".*")] == []
