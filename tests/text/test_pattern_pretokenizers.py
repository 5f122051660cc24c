"""Pre-tokenizers that are given by their pattern alone: the words and ids of those in C."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.base import plugins
from modtok_cli.base.errors import UsageError
from modtok_cli.core.binding import BLOCK
from modtok_cli.core.segment import Pairs, SegmenterHandle, Symbols
from modtok_cli.learn.sequential import learn_plain
from modtok_cli.modular.encoding.encoder import Encoder
from modtok_cli.text import pretokenizer as module
from modtok_cli.text.counts import count_documents, split_words
from modtok_cli.text.pretokenizer import BPE, PatternPreTokenizer, find_pretokenizer, pretokenizers

PATTERN = PatternPreTokenizer("pattern", BPE.pattern)
TEXTS = st.text("ab Z1!\n\t é\u0301漢👍'", max_size=40)


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, max_size=5))
def test_words_counts_and_ids_are_those_of_c(texts: list[str]) -> None:
    documents = [text.encode() for text in texts]
    for document in documents:
        assert split_words(document, PATTERN) == split_words(document, BPE)
    counts, expected = (count_documents([documents], each) for each in (PATTERN, BPE))
    assert list(counts.pairs()) == list(expected.pairs())
    merges = learn_plain(expected, 270).merges
    segmenter = SegmenterHandle.by_merges(Pairs(merges.merges), Symbols(merges.byte_ids()))
    ids, wanted = (Encoder(each, segmenter).texts(documents, 2) for each in (PATTERN, BPE))
    assert [one.tolist() for one in ids] == [one.tolist() for one in wanted]


def test_texts_longer_than_a_block_and_bytes_that_are_no_text() -> None:
    text = ("one two  three, é " * (BLOCK // 8)).encode()
    assert split_words(text, PATTERN) == split_words(text, BPE)
    assert b"".join(split_words(b"a \xff\xc3 b\xe2", PATTERN)) == b"a \xff\xc3 b\xe2"


def test_a_pattern_that_leaves_gaps_or_matches_nothing_keeps_the_text() -> None:
    assert split_words(b"ab12cd", PatternPreTokenizer("gaps", "[0-9]+|x*")) == [b"ab12", b"cd"]
    assert split_words(b"abc", PatternPreTokenizer("nothing", "z")) == [b"abc"]


class Entry:
    def __init__(self, name: str, value: str) -> None:
        self.name, self._value = name, value

    def load(self) -> str:
        return self._value


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch):
    entries = [Entry("letters", r"\p{L}+|\P{L}+"), Entry("bpe", "ignored: ours comes first")]
    monkeypatch.setattr(
        plugins, "_entry_points", lambda group: {each.name: each for each in entries}
    )
    module.pretokenizers.cache_clear()
    yield
    module.pretokenizers.cache_clear()


def test_another_package_adds_one(plugged: None) -> None:
    found = find_pretokenizer("letters")
    assert split_words("ab 12é".encode(), found) == [b"ab", b" 12", "é".encode()]
    assert pretokenizers()["bpe"] is BPE
    node = found.to_json(byte_level=True)
    assert module.pretokenizer_of_json(node, byte_level=True) is found
    with pytest.raises(UsageError, match=r"choose from: bpe, .*letters"):
        find_pretokenizer("none such")


def test_what_is_no_pattern_is_an_error() -> None:
    with pytest.raises(UsageError, match="pre-tokenizer 'bad'"):
        PatternPreTokenizer("bad", "(")
