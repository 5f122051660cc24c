"""Merges that are called certain are those of the whole text, by the slow reference."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from helpers.sample import SAMPLE
from modtok_cli.learn import certain
from modtok_cli.learn.certain import certain_merges
from modtok_cli.learn.sequential import learn_plain
from modtok_cli.reference.sequential_bpe import SequentialBpe
from modtok_cli.text.corpus import count_corpus
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.frequent import frequent_words

letters = st.text(alphabet="aaab c", min_size=1, max_size=7).map(str.encode)
corpus = st.dictionaries(letters, st.integers(1, 40), min_size=2, max_size=12)


@settings(deadline=None, max_examples=examples(80))
@given(corpus, st.integers(1, 12), st.integers(1, 6))
def test_certain_merges_are_those_of_the_whole_text(
    words: dict[bytes, int], least: int, weight: int
) -> None:
    found = frequent_words(WordCounts.from_pairs(words.items()), least, weight)
    if not len(found.counts):
        return
    merges = learn_plain(found.counts, 256 + 2 + 6, ("<a>", "<b>")).merges
    number = certain_merges(found, merges)
    whole = SequentialBpe(k=256 + 6)
    whole.add("x", words)
    tokens = merges.strings()
    learned = [(tokens[left], tokens[right]) for left, right, _ in merges.merges[:number]]
    assert learned == whole.merges[:number]


def test_how_many_are_certain() -> None:
    """After ab, cd has 22, 28 in the whole; ab c has 20, and c may follow b in 3 words left out."""
    words = {b"ab": 70, b"abc": 20, b"bc": 10, b"xbc": 3, b"cd": 22, b"xcd": 6}
    for least, expected in ((2, 3), (5, 3), (7, 1)):
        found = frequent_words(WordCounts.from_pairs(words.items()), least)
        assert certain_merges(found, learn_plain(found.counts, 259).merges) == expected


def test_real_text_in_several_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    text = list(count_corpus([SAMPLE / "data" / "en.jsonl"]).pairs())
    rare = [(word[::-1], 1) for word, _ in text if word.isascii() and len(word) > 8]
    counts = WordCounts.from_pairs([*((word, 100 * count) for word, count in text), *rare])
    found = frequent_words(counts, 2)
    merges = learn_plain(found.counts, 400).merges
    number = certain_merges(found, merges)
    assert 0 < number < 144
    whole = learn_plain(counts, 400).merges
    assert merges.merges[:number].tolist() == whole.merges[:number].tolist()
    monkeypatch.setattr(certain, "_WORDS", 100)
    assert certain_merges(found, merges) == number
