"""Learning in bounded memory: what is left out, recorded, reported, and the same everywhere."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import orjson
import pytest

from helpers.sample import sample_text
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.construct import bounded
from modtok_cli.construct.bounded import Room
from modtok_cli.construct.bpe_merge import bpe_merge
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.text.corpus import count_corpus, write_counts
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.frequent import frequent_words
from modtok_cli.text.table_files import save_counts
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer

K = 400
LEARNERS = [bpe_seq, bpe_merge]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return sample_text(tmp_path / "data", "en", "fi")


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were memory for 500 words."""
    monkeypatch.setattr(bounded, "can_learn", lambda words, size, k, memory: words <= 500)


def tokens(place: Path) -> list[str]:
    return [(place / name).read_text() for name in ("tokenizer.json", "references/fi.json")]


@pytest.mark.usefixtures("narrow")
@pytest.mark.parametrize("learner", LEARNERS)
def test_the_rarest_words_are_left_out(
    learner: Any,
    data: Path,
    tmp_path: Path,
    recwarn: pytest.WarningsRecorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = learner(data=data, output=tmp_path / "a", k=K, memory="1GB", threads=1)
    assert sum("left out" in str(each.message) for each in recwarn) == 2
    manifest = orjson.loads((tmp_path / "a" / "manifest.json").read_bytes())
    for row, entry in zip(report.lines, manifest["languages"], strict=True):
        left_out = entry["corpus"]["left_out"]
        assert left_out.pop("certain_merges") == row.get("certain_merges")
        counts = count_corpus([data / f"{row['language']}.jsonl"])
        expected = frequent_words(counts, left_out["min_count"], left_out["sample_weight"])
        assert left_out == {k: v for k, v in vars(expected.left_out).items() if k in left_out}
        assert left_out["words"] > 300
        assert 350 < len(expected.counts) < 550
        assert entry["corpus"]["bytes"] == counts.size.bytes
        for name, value in left_out.items():
            assert (
                row[name if name in ("min_count", "sample_weight") else f"left_out_{name}"] == value
            )
    has_certain = ["certain_merges" in row for row in report.lines]
    assert has_certain == [True, learner is bpe_merge]
    assert ModularTokenizer.load(tmp_path / "a").corpora["fi"].left_out is not None
    # Not of the number of threads, nor of what was counted before, which is not counted again.
    write_counts(data=data, output=tmp_path / "counts")
    monkeypatch.delattr(bounded, "count_into")
    again = learner(data=tmp_path / "counts", output=tmp_path / "b", k=K, memory="1GB", threads=4)
    assert again.signature == report.signature
    assert tokens(tmp_path / "a") == tokens(tmp_path / "b")


def test_min_count(data: Path, tmp_path: Path) -> None:
    report = bpe_seq(data=data, output=tmp_path / "tok", k=K, min_count=3)
    by_memory = bpe_seq(data=data, output=tmp_path / "both", k=K, min_count=3, memory="1GB")
    assert by_memory.signature == report.signature
    with pytest.raises(UsageError, match="other settings"):
        bpe_seq(data=data, output=tmp_path / "tok", k=K)
    bpe_seq(data=data, output=tmp_path / "every", languages="en", k=K)
    with pytest.raises(UsageError, match="without it"):
        bpe_seq(data=data, output=tmp_path / "every", append="fi", k=K, min_count=3)


@pytest.mark.usefixtures("narrow")
def test_an_appended_language_keeps_what_is_said_of_the_others(data: Path, tmp_path: Path) -> None:
    bpe_seq(data=data, output=tmp_path / "tok", languages="en", k=K, memory="1GB")
    before = ModularTokenizer.load(tmp_path / "tok").corpora["en"]
    bpe_seq(data=data, output=tmp_path / "tok", append="fi", k=K)
    after = ModularTokenizer.load(tmp_path / "tok").corpora
    assert after["en"] == before
    assert after["en"].left_out is not None
    assert after["fi"].left_out is None


def test_what_cannot_be_learned_is_refused(data: Path, tmp_path: Path) -> None:
    (tmp_path / "counts").mkdir()
    save_counts(WordCounts.from_pairs([]), tmp_path / "counts" / "fi.counts", "fi")
    for options, said in (
        ({"memory": "0.1 gib"}, "expected 500MB or more"),
        ({"memory": "much"}, "expected a size"),
        ({"min_count": 10**8}, "no word of en occurs 100000000 times"),
        ({"data": tmp_path / "counts", "memory": "1GB"}, "fi.counts: the text of language 'fi' is"),
    ):
        with pytest.raises(ModtokError, match=said):
            bpe_seq(**{"data": data, "output": tmp_path / "tok", "k": K, **options})
    assert not (tmp_path / "tok").exists()


def test_threads_wait_for_room() -> None:
    room, inside, most, alone = Room(10), [0], [0], threading.Lock()

    def enter(size: int) -> None:
        with alone:
            inside[0] += size
            most[0] = max(most[0], inside[0])

    def work(size: int) -> None:
        for _ in range(20):
            with room.take(size):
                enter(min(size, 10))
                enter(-min(size, 10))

    threads = [threading.Thread(target=work, args=(size,)) for size in (3, 4, 6, 99)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(600)
    assert most[0] <= 10
    with room.take(10):
        assert not any(thread.is_alive() for thread in threads)
