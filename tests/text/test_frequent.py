"""Frequent words of a table in memory and on disk, frequent sequences of words, samples."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from modtok_cli.base.arrays import Int64Array
from modtok_cli.base.errors import UsageError
from modtok_cli.reference import superwords
from modtok_cli.text import frequent
from modtok_cli.text.counts import WordCounts, count_documents, split_words
from modtok_cli.text.frequent import StoredCounts, frequent_words
from modtok_cli.text.pretokenizer import BPE, PHRASES
from modtok_cli.text.sequences import Sample, frequent_sequences, sample_documents
from modtok_cli.text.table_files import save_counts
from modtok_cli.text.text_format import Document

words = st.dictionaries(st.binary(min_size=1, max_size=4), st.integers(1, 5), min_size=1)


def followers(pairs: list[tuple[bytes, int]]) -> dict[tuple[int, int], int]:
    found: dict[tuple[int, int], int] = {}
    for word, count in pairs:
        for a, b in pairwise(word):
            found[a, b] = found.get((a, b), 0) + count
    return found


def entries(table: Int64Array) -> dict[tuple[int, int], int]:
    return {(int(at) >> 8, int(at) & 255): int(table[at]) for at in np.flatnonzero(table)}


@settings(deadline=None, max_examples=examples(60))
@given(words, st.integers(1, 6), st.integers(1, 6))
def test_every_word_is_kept_or_left_out(counted: dict[bytes, int], least: int, weight: int) -> None:
    found = frequent_words(WordCounts.from_pairs(counted.items()), least, weight)
    kept = dict(found.counts.pairs())
    assert kept.keys() >= {word for word in counted if counted[word] >= max(least, weight)}
    assert all(counted[word] >= least for word in kept)
    assert kept == {word: max(counted[word], weight) for word in kept}
    rare = [(word, count) for word, count in counted.items() if word not in kept]
    assert found.left_out.words == len(rare)
    assert found.left_out.occurrences == sum(count for _, count in rare)
    assert found.left_out.bytes == sum(len(word) * count for word, count in rare)
    assert entries(found.missing) == followers(rare)
    assert entries(found.excess) == followers(
        [(word, kept[word] - counted[word]) for word in kept if kept[word] > counted[word]]
    )
    assert found.counts.size.bytes == sum(len(word) * count for word, count in counted.items())


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """10,000 words that occur once, 1,000 twice, 100 three times: 12,300 occurrences."""
    pairs = [
        (f" w{count}-{number}".encode(), count)
        for count, number_of in ((1, 10_000), (2, 1000), (3, 100))
        for number in range(number_of)
    ]
    save_counts(WordCounts.from_pairs(pairs), tmp_path / "fi.counts", "fi")
    return tmp_path / "fi.counts"


@pytest.mark.parametrize(
    ("room", "weight"), [(11_100, 1), (11_099, 2), (6100, 2), (6099, 3), (1000, 13), (500, 25)]
)
def test_as_many_words_as_fit(
    table: Path, room: int, weight: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With weight 3 are expected: 10,000 / 3 + 1000 × 2 / 3 + 100."""
    monkeypatch.setattr(frequent, "_WINDOW", 20_000)
    stored = StoredCounts(table, lambda words, size: words <= room)
    assert stored.sample_weight == weight
    found = stored.read()
    assert len(found.counts) == pytest.approx(stored.words, rel=0.1)
    assert len(found.counts.data) == pytest.approx(stored.bytes, rel=0.1)
    assert found.counts.occurrences == pytest.approx(12_300, rel=0.1)
    assert len(found.counts) + found.left_out.words == 11_100
    every = StoredCounts(table, lambda words, size: True).read().counts
    assert len(every) == 11_100
    whole = frequent_words(every, 1, weight)
    assert whole.counts.fingerprint() == found.counts.fingerprint()
    assert whole.left_out == found.left_out
    assert np.array_equal(whole.missing, found.missing)
    assert np.array_equal(whole.excess, found.excess)


def test_a_threshold_by_hand(table: Path) -> None:
    stored = StoredCounts(table, lambda words, size: words <= 1000, 2)
    assert (stored.min_count, stored.sample_weight, stored.words) == (2, 3, 766)
    assert set(stored.read().counts.counts.tolist()) == {3}


def test_a_threshold_above_all_weights(table: Path, tmp_path: Path) -> None:
    """Words that occur as often still need memory."""
    pairs = [(b"a", 70_000), (b"bb", 200_000), (b"c", 5)]
    save_counts(WordCounts.from_pairs(pairs), tmp_path / "en.counts", "en")
    stored = StoredCounts(tmp_path / "en.counts", lambda words, size: True, 70_000)
    assert (stored.words, stored.bytes) == (2, 3)
    assert list(stored.read().counts.pairs()) == pairs[:2]
    assert StoredCounts(table, lambda words, size: True, 70_000).words == 0


def test_nothing_fits(table: Path) -> None:
    with pytest.raises(UsageError, match="--memory"):
        StoredCounts(table, lambda words, size: False)


TEXTS = st.lists(st.text("ab\u0301,' \n\t1٣é漢", max_size=30), max_size=6) | st.lists(
    st.text("ab \n", min_size=20, max_size=60), max_size=8
)


@settings(max_examples=examples(80), deadline=None)
@given(TEXTS, st.integers(2, 4), st.integers(1, 3), st.integers(0, 12))
def test_sequences_are_those_of_counting_one_by_one(
    texts: list[str], longest: int, least: int, most: int
) -> None:
    groups = [count_documents([[text.encode()]], PHRASES) for text in texts]
    found = frequent_sequences(groups, most, longest=longest, least=least)
    words = [
        {tuple(split_words(phrase, BPE)): count for phrase, count in phrases.pairs()}
        for phrases in groups
    ]
    assert found == superwords.frequent_sequences(words, most, longest=longest, least=least)


@given(st.lists(st.binary(max_size=9), max_size=60), st.integers(1, 200), st.integers(1, 7))
def test_a_sample_is_every_nth_document_within_the_limit(
    texts: list[bytes], limit: int, batch: int
) -> None:
    sample = Sample(limit)
    for start in range(0, len(texts), batch):
        sample.add(Document(text, None, 1) for text in texts[start : start + batch])
    strides = [1 << power for power in range(8)]
    fits = (texts[::n] for n in strides)
    expected = next(kept for kept in fits if sum(map(len, kept)) <= limit or len(kept) <= 1)
    assert [document.text for document in sample.documents] == expected


def test_a_sample_is_grouped_by_source(tmp_path: Path) -> None:
    for name, lines in {"a.txt": "one\ntwo\n", "b.txt": "three\nfour\n"}.items():
        (tmp_path / name).write_text(lines)
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    assert sample_documents(files, 100) == [[b"one"], [b"two"], [b"three"], [b"four"]]
    assert sample_documents(files, 8) == [[b"one"], [b"three"]]
    lines = [
        {"text": "one", "source": "b"},
        {"text": "two", "url": "https://a.org/page"},
        {"text": "three", "url": "https://a.org/other", "source": None},
        {"text": "four", "source": "b"},
    ]
    (tmp_path / "en.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert sample_documents([tmp_path / "en.jsonl"], 100) == [[b"two", b"three"], [b"one", b"four"]]
    columns = {name: [line.get(name) for line in lines] for name in ("text", "source", "url")}
    pq.write_table(pa.table(columns), tmp_path / "en.parquet")
    assert sample_documents([tmp_path / "en.parquet"], 100) == [
        [b"two", b"three"],
        [b"one", b"four"],
    ]
    # A source with most of the text is divided.
    lines = [{"text": text, "source": text[0]} for text in ("a one", "a two", "b", "a three")]
    (tmp_path / "en.jsonl").write_text("\n".join(map(json.dumps, lines)))
    groups = sample_documents([tmp_path / "en.jsonl"], 100)
    assert groups == [[b"a one", b"b"], [b"a two"], [b"a three"]]


def test_boilerplate_of_one_source_counts_little() -> None:
    texts = ["see this manual\n" * 40, *["one of the\n" * 4] * 5]
    groups = [count_documents([[text.encode()]], PHRASES) for text in texts]
    assert frequent_sequences(groups, 1) == [b"one of the"]
    assert frequent_sequences(groups[:1] + groups, 1) == [b"one of the"]  # of a related source too
    assert frequent_sequences(groups[:1] * 3, 1) == [b"see this manual"]


@pytest.mark.parametrize("text", ["one two  three 4 five, six\tseven\neight", "", " a", "a 1 b"])
def test_phrases_end_at_numbers_tabs_lines_and_double_spaces(text: str) -> None:
    words = split_words(text.encode(), PHRASES)
    assert b"".join(words) == text.encode()
    for left, right in pairwise(words):
        joined = left + right
        assert split_words(joined, PHRASES) == [left, right]
