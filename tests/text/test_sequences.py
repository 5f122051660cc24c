"""Frequent sequences of words, against counting them one by one; samples of a stream."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.reference import superwords
from modtok_cli.text.counts import count_documents, split_words
from modtok_cli.text.pretokenizer import BPE, PHRASES
from modtok_cli.text.sequences import Sample, frequent_sequences, sample_documents
from modtok_cli.text.text_format import Document

TEXTS = st.lists(st.text("ab\u0301,' \n\t1٣é漢", max_size=30), max_size=6) | st.lists(
    st.text("ab \n", min_size=20, max_size=60), max_size=8
)


@settings(max_examples=200, deadline=None)
@given(TEXTS, st.integers(2, 4), st.integers(1, 3), st.integers(1, 12))
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


def test_sequences_of_nothing() -> None:
    assert frequent_sequences([count_documents([], PHRASES)], 5) == []
    assert frequent_sequences([count_documents([[b"one two"]], PHRASES)], 0) == []
    assert frequent_sequences([count_documents([[b"one"]], PHRASES)], 5) == []


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


def test_a_sample_reads_several_files(tmp_path: Path) -> None:
    for name, lines in {"a.txt": "one\ntwo\n", "b.txt": "three\nfour\n"}.items():
        (tmp_path / name).write_text(lines)
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    assert sample_documents(files, 100) == [[b"one"], [b"two"], [b"three"], [b"four"]]
    assert sample_documents(files, 8) == [[b"one"], [b"three"]]


def test_a_sample_is_grouped_by_source(tmp_path: Path) -> None:
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


def test_a_source_with_most_of_the_text_is_divided(tmp_path: Path) -> None:
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
