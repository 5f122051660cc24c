"""Pre-tokenizers of published models: words are those of the library, for every code point."""

from __future__ import annotations

import json
from functools import cache

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from modtok_cli.core.binding import BLOCK
from modtok_cli.reference import splitting
from modtok_cli.text.counts import split_words
from modtok_cli.text.pretokenizer import pretokenizer_of_json, pretokenizers

NAMES = ("gpt2", "smollm", "cl100k", "llama3", "qwen2", "o200k", "tekken", "gemma", "none")
ISOLATED = '"behavior": "Isolated", "invert": false'
REMOVED = '"behavior": "Removed", "invert": true'  # GPT-4 and GPT-4o in tokenizers of JavaScript
CONTRACTIONS = ["'s", "'S", "'ll", "'LL", "'rE", "'ve", "'Ve", "'m", "'D", "'t", "'ſ", "'r", "'l"]
LINES = ["\n", "\r\n", " \n", "\n ", "\t\n\t", "  ", "/", "//\n", "\u3000", "\x85"]
NASTY = [
    " ", "\x00", "\x0b", "\x1c", "\xa0", "\u2028", "\u200b", "\ufeff", "\ufffd", "\u0301", "\u0903",
    "\u20dd", "क", "ि", "𝒳", "1", "٣", "²", "৴", "_", "!", "'", "€", "▁", "👍",
    "\u0378", "\U0010ffff",
]  # fmt: skip
WORDS = [
    "a",
    "B",
    "ab",
    "Ab",
    "aB",
    "AB",
    "ABc",
    "ǅ",
    "ª",
    "ʰ",
    "漢",
    "Ⅷ",
    "12",
    "1234",
    "é",
    "e\u0301",
]


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


def check(text: str) -> None:
    for name in NAMES:
        words = library_words(name, text)
        assert split_words(text.encode(), pretokenizers()[name]) == words, name
        if name != "smollm":  # its `Digits` has newer numbers than any pattern
            assert splitting.split(pretokenizers()[name].pattern, text.encode()) == words, name


@settings(max_examples=examples(40), deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(CONTRACTIONS + LINES + WORDS + NASTY), st.characters(codec="utf-8")
        ),
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
@example("e\u0301E\u0301'S")
def test_words_are_those_of_the_library(text: str) -> None:
    check(text)


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
    check(text)
    block = "a" * max(0, BLOCK - back) + text
    for name in ("gpt2", "smollm", "bpe"):
        assert split_words(block.encode(), pretokenizers()[name]) == library_words(name, block)


def test_every_code_point_in_the_places_that_patterns_look_at() -> None:
    points = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    # The classes of all points are checked elsewhere: of rare scripts and symbols some will do.
    some = points[:0x600] + points[0x1E00:0x2100] + points[0x3000:0x3080] + points[::311]
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
