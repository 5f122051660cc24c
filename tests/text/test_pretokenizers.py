"""Pre-tokenizers: words, and changes of documents, are those of the library, for all text."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Sequence
from functools import cache

import numpy as np
import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers.normalizers import NFC

from helpers.class_tables import CASES, ask_engine
from helpers.examples import examples
from modtok_cli.base import plugins
from modtok_cli.base.errors import UsageError
from modtok_cli.core.binding import BLOCK, PADDING, Splitter
from modtok_cli.core.segment import Pairs, SegmenterHandle, Symbols
from modtok_cli.core.text import UPPER, classes, split
from modtok_cli.learn.sequential import learn_plain
from modtok_cli.reference import splitting
from modtok_cli.text import pretokenizer as module
from modtok_cli.text.counts import count_documents, split_words
from modtok_cli.text.pretokenizer import (
    BPE,
    PatternPreTokenizer,
    composed,
    find_pretokenizer,
    prefixed,
    pretokenizer_of_json,
    pretokenizers,
    restore_pretokenizer,
    spaced,
)
from modtok_cli.tokenizer.encoding.encoder import Encoder

NAMES = (
    "bpe", "unigram", "gpt2", "smollm", "cl100k", "llama3", "qwen2", "qwen35", "o200k", "tekken",
    "gemma", "none",
)  # fmt: skip
ISOLATED = '"behavior": "Isolated", "invert": false'
REMOVED = '"behavior": "Removed", "invert": true'  # GPT-4 and GPT-4o in tokenizers of JavaScript
CONTRACTIONS = ["'s", "'S", "'ll", "'LL", "'rE", "'ve", "'Ve", "'m", "'D", "'t", "'ſ", "'r", "'l"]
LINES = ["\n", "\r\n", " \n", "\n ", "\t\n\t", "  ", "/", "//\n", "\u3000", "\x85"]
WORDS = [
    "a", "B", "ab", "Ab", "aB", "AB", "ABc", "ǅ", "ª", "ʰ", "漢", "Ⅷ", "12", "1234", "é", "e\u0301",
]  # fmt: skip


NASTY = [
    " ", "  ", "\t", "\n", "\r", "\x00", "\x0b", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u2028",
    "\u202f", "\u3000", "\u200b", "\u200d", "\ufeff", "\ufffd", "\ufffe", "\u0301", "\u0903",
    "\u20dd", "\ufe0f", "\U000e0100", "a", "Z", "é", "ß", "ǅ", "ª", "क", "ि", "漢", "𝒳", "1", "٣",
    "²", "Ⅷ", "৴", "_", "!", "'", "-", "€", "▁", "👍", "\U0001f3fd", "\u0378", "\U000e0080",
    "\ue000", "\U0010ffff", "@", "[", "`", "{", "/", ":", "\x7f", "\x80",
]  # fmt: skip
CATEGORIES = sorted({unicodedata.category(chr(c)) for c in range(0x110000)} - {"Cs"})


@st.composite
def any_category(draw) -> str:
    """A code point of a category drawn first, so that rare categories come up too."""
    category = draw(st.sampled_from(CATEGORIES))
    return draw(st.characters(categories=[category]))


@cache
def published(name: str):
    """The library's pre-tokenizer as a file describes it, without the spelling of bytes."""
    from tokenizers import Tokenizer, models

    document = orjson.loads(Tokenizer(models.BPE()).to_str())
    document["pre_tokenizer"] = pretokenizers()[name].to_json(byte_level=True)
    return Tokenizer.from_str(orjson.dumps(document).decode()).pre_tokenizer


def library_words(name: str, text: str) -> list[bytes]:
    spans = [span for _, span in published(name).pre_tokenize_str(text)]
    assert [start for start, _ in spans] == [0, *(stop for _, stop in spans)][: len(spans)]
    return [text[start:stop].encode() for start, stop in spans]


def walked_words(name: str, text: bytes) -> list[bytes]:
    """By `word_end` alone, as a pre-tokenizer without `split_block` does."""
    own = pretokenizers()[name].splitter
    walker = Splitter(own.word_end, None, own.lookahead, own.filter, own.shift)
    data = np.frombuffer(text + bytes(PADDING), dtype=np.uint8)
    cuts = split(data, walker).tolist()
    return [text[start:stop] for start, stop in zip([0, *cuts], cuts, strict=False)]


def check(text: str, names: Sequence[str] = NAMES) -> None:
    data = text.encode()
    for name in names:
        words = library_words(name, text)
        assert split_words(data, pretokenizers()[name]) == words, name
        assert walked_words(name, data) == words, name
        if name != "smollm":  # its `Digits` has newer numbers than any pattern
            assert splitting.split(pretokenizers()[name].pattern, data) == words, name


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(
        st.one_of(st.sampled_from(CONTRACTIONS + LINES + WORDS + NASTY), any_category()),
        min_size=1,
        max_size=12,
    ).map("".join)
)
@example("it's IT'S 'sx ''s a's's")
@example("a  b \n\n c\n  d \t 1  2")
@example("x 1 22 333 4444 55555a")
@example(" !? ...\n\n/ //a \u0301a \u0301\u0301!")
@example("HELLOworld HelloWorld's ǅa ªB ʰʰA \u0301A'S")
@example("'")
@example(" a\tb \n c")
@example("!\u0301a \u0301! 1\u0301\u0301a")
@example("x\x85 y\x1c z\u200dw")
@example("\u0378\u0301\u0378 \U000e0080")
@example(" ")
@example(" \u3000 a")
@example("e\u0301E\u0301'S")
def test_words_are_those_of_the_library(text: str) -> None:
    check(text)


def test_every_pair_of_nasty_characters():
    # As one text: every pair stands between letters, where it can change what follows.
    check("".join(f"a{x}{y}" for x in NASTY for y in NASTY), ["bpe"])
    check("".join(f"!{x}{y} " for x in NASTY for y in NASTY), ["bpe"])


@settings(max_examples=examples(25), deadline=None)
@given(
    st.lists(
        st.sampled_from([*CONTRACTIONS, *LINES, *WORDS, *NASTY, "the", " of", "'", "''", "\xa0"]),
        min_size=20,
        max_size=90,
    ).map("".join),
    st.integers(0, 200),
)
def test_words_at_the_edges_of_what_is_split_at_once(text: str, back: int) -> None:
    """In some blocks; the harness of the core splits random text at the edges of small ones."""
    check(text)
    block = "a" * max(0, BLOCK - back) + text
    for name in ("gpt2", "smollm", "bpe", "unigram"):
        assert split_words(block.encode(), pretokenizers()[name]) == library_words(name, block)


def test_every_code_point_in_the_places_that_patterns_look_at() -> None:
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    # The classes of all points are checked elsewhere: of rare scripts and symbols some will do.
    some = points[:0x600] + points[0x1E00:0x2100] + points[0x3000:0x3080] + points[::997]
    some += [chr(c) for c in (*range(0x11DD0, 0x11DF0), *range(0x16FF0, 0x17000))]
    for form in ("'{}e ", "a{}A 1{}\n", " {}/{}  "):
        check("".join(form.replace("{}", point) for point in some))


@pytest.mark.parametrize("name", NAMES)
def test_files_are_recognized(name: str) -> None:
    for byte_level in (True, False):
        node = pretokenizers()[name].to_json(byte_level=byte_level)
        for each in (node, json.loads(json.dumps(node).replace(ISOLATED, REMOVED))):
            assert pretokenizer_of_json(each, byte_level=byte_level) is pretokenizers()[name]


def test_gpt2_is_recognized_with_its_pattern_spelled_out() -> None:
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    pattern = pretokenizers()["gpt2"].pattern
    split = {
        "type": "Split",
        "pattern": {"Regex": pattern},
        "behavior": "Isolated",
        "invert": False,
    }
    both = {"type": "Sequence", "pretokenizers": [split, {**level, "use_regex": False}]}
    assert pretokenizers()["gpt2"].to_json(byte_level=True) == {**level, "use_regex": True}
    for node in (level, {**level, "use_regex": True}, both):
        assert pretokenizer_of_json(node, byte_level=True) is pretokenizers()["gpt2"]
    assert pretokenizer_of_json({**level, "use_regex": False}, byte_level=True) is None


@given(st.binary(max_size=40))
@settings(max_examples=examples(80), deadline=None)
def test_invalid_utf8_is_kept_and_in_bounds(data):
    assert b"".join(split_words(data)) == data
    assert b"".join(walked_words("bpe", data)) == data


def test_class_table_equals_the_engine():
    """Fails when `tokenizers` moves to another Unicode: see what changed, then make it anew."""
    asked, ours = ask_engine(), classes()
    differ = np.flatnonzero(asked != ours)
    shown = ", ".join(f"U+{c:04X} is {asked[c]}, not {ours[c]}" for c in differ[:5])
    assert not len(differ), (
        f"{len(differ)} code points have another class in the installed tokenizers ({shown}): "
        "run tests/helpers/class_tables.py and look at the change of classes.inc"
    )


def test_case_table_equals_the_engine():
    asked, ours = ask_engine(CASES), classes(True)
    assert ((asked != 0) == (ours >= UPPER)).all()
    assert (ours[asked != 0] == asked[asked != 0]).all()
    assert (ours[asked == 0] == classes()[asked == 0]).all()


def test_composition_of_every_code_point() -> None:
    library = NFC()
    points = [chr(c) for c in range(11, 0x20000) if not 0xD800 <= c < 0xE000]
    points += map(chr, [*range(0x2F800, 0x2FA20), 0x30000, 0x10FFFF])
    # Alone, after a letter and a mark, and after what Hangul, Indic and new vowels compose with.
    for before in ("", "a", "a\u0301", "\u1100", "\uac00", "\u0bc6", "\U00016d67"):
        for first in range(0, len(points), 64):
            texts = [before + point for point in points[first : first + 64]]
            expected = library.normalize_str("\n".join(texts))
            assert composed("\n".join(texts).encode()).decode() == expected, hex(first)
            for text, form in zip(texts, expected.split("\n"), strict=True):
                if form != text:
                    assert composed(text.encode()).decode() == form, text
    for text in ("ascii", "déjà vu", "данные", "漢字 かな", "\u0301a"):
        data = text.encode()
        assert composed(data) is data


def test_spaces_before_documents() -> None:
    assert [prefixed(text) for text in (b"", b"a", b" a")] == [b"", b" a", b"  a"]
    texts = [b"", b"a", b" a", "▁a".encode()]
    assert [spaced(text) for text in texts] == [b"", b" a", *texts[2:]]


def test_names_that_are_none() -> None:
    names = ("qwen2+nfd", "none+", "gpt9+nfc", "+nfc", "gpt2+[]", "gpt2+[1]", 'gpt2+[""]', "gpt2+[")
    for name in names:
        with pytest.raises(UsageError, match="unknown pre-tokenizer"):
            restore_pretokenizer(name)


PATTERN = PatternPreTokenizer("pattern", BPE.pattern)


SHORT = st.text("ab Z1!\n\t é\u0301漢👍'", max_size=40)


@settings(max_examples=60, deadline=None)
@given(st.lists(SHORT, max_size=5))
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
    assert pretokenizer_of_json(node, byte_level=True) is found
    with pytest.raises(UsageError, match=r"choose from: bpe, .*letters"):
        find_pretokenizer("none such")


def test_what_is_no_pattern_is_an_error() -> None:
    with pytest.raises(UsageError, match="pre-tokenizer 'bad'"):
        PatternPreTokenizer("bad", "(")
