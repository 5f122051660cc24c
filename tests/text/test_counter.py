"""The compiled counter against a plain `Counter` over the same words."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.text.counts import (
    CorpusSize,
    WordCounter,
    count_documents,
    merge_counts,
    split_words,
)


def plain(documents: list[bytes]) -> dict[bytes, int]:
    total: Counter[bytes] = Counter()
    for document in documents:
        total.update(split_words(document))
    return dict(sorted(total.items()))


WORDS = st.sampled_from(
    ["a", "b", " a", "ab", "abcdefgh", "abcdefghi", " abcdefghijklmno", " abcdefghijklmnop",
     "abcdefghijklmnopqrstuvwxyz", "abcdefghijklmnopqrstuvwxyz" * 3, "\0", "a\0", "\0\0", "é",
     "हिन्दी",
     "\n", "  ", "12345678", "!", "…", "👍🏽"]
)  # fmt: skip
DOCUMENTS = st.lists(st.lists(WORDS, max_size=12).map(lambda w: "".join(w).encode()), max_size=8)


@settings(max_examples=200, deadline=None)
@given(DOCUMENTS)
def test_counts_are_those_of_a_counter(documents):
    table = count_documents([documents] if documents else [])
    assert list(table.pairs()) == list(plain(documents).items())
    text = b"".join(documents).decode()
    assert table.size == CorpusSize(len(documents), len(text), len(text.encode()))


@settings(max_examples=100, deadline=None)
@given(DOCUMENTS, DOCUMENTS)
def test_count_of_a_union_is_the_sum(a, b):
    merged = merge_counts([count_documents([a]), count_documents([b])])
    together = count_documents([a, b])
    assert merged.fingerprint() == together.fingerprint()
    assert merged.size == together.size
    assert list(merged.pairs()) == list(together.pairs())


def test_growth_of_table_and_arena():
    """More unique words than the first table holds, short and long, all of them counted."""
    generator = random.Random(3)
    numbers = [generator.randrange(1 << 40) for _ in range(120_000)]
    short = [b"%x" % n for n in numbers]
    long = [b"averyveryverylongword%x" % n for n in numbers[:60_000]]
    letters = bytes.maketrans(b"0123456789", b"ghijklmnop")
    documents = [word.translate(letters) for word in [*short, *long, *short[:1000]]]
    table = count_documents(documents[i : i + 5000] for i in range(0, len(documents), 5000))
    expected = Counter(documents)
    assert len(table) > 170_000
    assert list(table.pairs()) == sorted(expected.items())


def test_many_words_with_one_beginning_are_sorted():
    words = [
        b"prefixed" + bytes([97 + i % 26, 97 + i // 26 % 26, 97 + i // 676]) for i in range(9000)
    ]
    random.Random(0).shuffle(words)
    assert count_documents([words]).words() == sorted(set(words))


def test_weights():
    counter = WordCounter()
    counter.add_documents([b"a b", b"b"], np.array([3, 1 << 40]))
    assert dict(counter.result().pairs()) == {b"a": 3, b" b": 3, b"b": 1 << 40}


def test_one_enormous_word():
    word = b"x" * 5_000_000
    table = count_documents([[word + b" y", word]])
    assert list(table.pairs()) == [(b" y", 1), (word, 2)]


def test_result_between_additions():
    counter = WordCounter()
    counter.add_documents([b"a"])
    assert dict(counter.result().pairs()) == {b"a": 1}
    counter.add_documents([b"a"])
    assert dict(counter.result().pairs()) == {b"a": 2}


def test_buffer_without_padding_is_refused():
    counter = WordCounter()
    span = np.array([0]), np.array([3])
    with pytest.raises(ValueError, match="64 bytes"):
        counter.add_spans(np.frombuffer(b"abc", dtype=np.uint8), *span)
