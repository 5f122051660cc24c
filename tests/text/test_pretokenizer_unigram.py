"""The `unigram` pre-tokenizer: the core, the regular-expression engine, and the counter."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, pre_tokenizers

from modtok_cli.core.binding import BLOCK
from modtok_cli.reference import splitting
from modtok_cli.text.counts import count_documents, split_words
from modtok_cli.text.pretokenizer import UNIGRAM

texts = st.text("ab 0٣９é▁\u00a0\u3000\u2028\x85\t\n\r\x0b\x0c\x1c\x00👍", max_size=40) | st.text(
    max_size=40
)


@settings(max_examples=300, deadline=None)
@given(texts)
def test_splits_as_the_engine_does(text: str) -> None:
    split = pre_tokenizers.Split(Regex(UNIGRAM.pattern), "isolated")
    expected = [word.encode() for word, _ in split.pre_tokenize_str(text)]
    assert split_words(text.encode(), UNIGRAM) == expected
    assert splitting.split(UNIGRAM.pattern, text.encode()) == expected


@settings(max_examples=100, deadline=None)
@given(st.lists(texts.map(str.encode), max_size=5))
def test_counts_are_those_of_a_counter(documents: list[bytes]) -> None:
    total: Counter[bytes] = Counter()
    for document in documents:
        total.update(split_words(document, UNIGRAM))
    table = count_documents([documents], UNIGRAM)
    assert table.pretokenizer is UNIGRAM
    assert dict(table.pairs()) == total


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a  b", ["a", "  b"]),
        ("a 12 b", ["a", " ", "1", "2", " b"]),
        ("x \n\ty ", ["x", " ", "\n\t", "y", " "]),
        ("un\u00a0mot ▁", ["un\u00a0mot", " ▁"]),
        ("", []),
    ],
)
def test_examples(text: str, words: list[str]) -> None:
    assert split_words(text.encode(), UNIGRAM) == [word.encode() for word in words]


@pytest.mark.parametrize("word", ["a", " ", "é", "\n", "7"])
def test_words_longer_than_a_block(word: str) -> None:
    text = "x" + word * (2 * BLOCK + 7) + "1 b"
    cut = split_words(text.encode(), UNIGRAM)
    assert b"".join(cut) == text.encode()
    joined = "x" + word * (2 * BLOCK + 7)
    split = pre_tokenizers.Split(Regex(UNIGRAM.pattern), "isolated")
    assert cut[:3] == [w.encode() for w, _ in split.pre_tokenize_str(joined + "1 b")][:3]
