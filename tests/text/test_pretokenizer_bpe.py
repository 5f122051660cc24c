"""Words are exactly the matches of the pattern, as the engine of `tokenizers` finds them."""

from __future__ import annotations

import unicodedata
from functools import cache

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helpers.class_tables import CASES, ask_engine
from helpers.examples import examples
from modtok_cli.core.binding import BLOCK, PADDING, Splitter
from modtok_cli.core.text import UPPER, classes
from modtok_cli.core.text import split as split_buffer
from modtok_cli.reference import splitting
from modtok_cli.text.counts import split_words
from modtok_cli.text.pretokenizer import BPE


@cache
def _splitter():
    from tokenizers import Regex, pre_tokenizers

    return pre_tokenizers.Split(Regex(BPE.pattern), "isolated")


def engine_words(text: str) -> list[bytes]:
    # Offsets, not the pieces: the library would hide a gap between matches otherwise.
    found = [span for _, span in _splitter().pre_tokenize_str(text)]
    assert [start for start, _ in found] == [0, *(stop for _, stop in found)][: len(found)]
    return [text[start:stop].encode() for start, stop in found]


def walked_words(text: bytes) -> list[bytes]:
    """By `word_end` alone, as a pre-tokenizer without `split_block` does."""
    walker = Splitter(BPE.splitter.word_end, None, 0, None, 0)
    data = np.frombuffer(text + bytes(PADDING), dtype=np.uint8)
    cuts = split_buffer(data, walker).tolist()
    return [text[start:stop] for start, stop in zip([0, *cuts], cuts, strict=False)]


def check(text: str) -> None:
    expected = engine_words(text)
    assert split_words(text.encode()) == expected
    assert walked_words(text.encode()) == expected
    assert splitting.split(BPE.pattern, text.encode()) == expected


NASTY = [
    " ", "  ", "\t", "\n", "\r", "\x00", "\x0b", "\x1c", "\x1f", "\x85", "\xa0", "\u1680", "\u2028",
    "\u202f", "\u3000", "\u200b", "\u200d", "\ufeff", "\ufffd", "\ufffe", "\u0301", "\u0903",
    "\u20dd", "\ufe0f", "\U000e0100", "a", "Z", "é", "ß", "ǅ", "ª", "क", "ि", "漢", "𝒳", "1", "٣",
    "²", "Ⅷ", "৴", "_", "!", "'", "-", "€", "▁", "👍", "\U0001f3fd", "\u0378", "\U000e0080",
    "\ue000", "\U0010ffff", "@", "[", "`", "{", "/", ":", "\x7f", "\x80",
]  # fmt: skip


@st.composite
def any_category(draw) -> str:
    """A code point of a category drawn first, so that rare categories come up too."""
    category = draw(st.sampled_from(CATEGORIES))
    return draw(st.characters(categories=[category]))


CATEGORIES = sorted({unicodedata.category(chr(c)) for c in range(0x110000)} - {"Cs"})
PIECES = st.one_of(st.sampled_from(NASTY), any_category())


@settings(max_examples=examples(120), deadline=None)
@given(st.lists(PIECES, min_size=1, max_size=30).map("".join))
@example("a  b")
@example(" a\tb \n c")
@example("!\u0301a \u0301! 1\u0301\u0301a")
@example("x\x85 y\x1c z\u200dw")
@example("\u0378\u0301\u0378 \U000e0080")
@example(" ")
@example(" \u3000 a")
def test_words_are_the_pattern_matches(text):
    check(text)


def test_every_pair_of_nasty_characters():
    # As one text: every pair stands between letters, where it can change what follows.
    check("".join(f"a{x}{y}" for x in NASTY for y in NASTY))
    check("".join(f"!{x}{y} " for x in NASTY for y in NASTY))


def test_every_character_of_two_bytes():
    check("".join(f"a{chr(point)} {chr(point)}!{chr(point)}" for point in range(0x80, 0x800)))


@pytest.mark.parametrize("shift", range(-5, 6))
@pytest.mark.parametrize("piece", ["a", " b", "é", "ह", "👍", "  ", "\u3000", "!\u0301"])
def test_words_across_block_edges(piece, shift):
    # "x " fills a block up to its edge, give or take; then the piece lies across it.
    text = "x" * (BLOCK + shift - 10) + " y" * 5 + piece * 20
    check(text)
    check("x y" + piece * (BLOCK // len(piece.encode()) + shift))


def test_word_longer_than_many_blocks():
    long = "é" * (3 * BLOCK)
    assert split_words(f"a {long} b".encode()) == [b"a", f" {long}".encode(), b" b"]


@given(st.binary(max_size=40))
@settings(max_examples=examples(80), deadline=None)
def test_invalid_utf8_is_kept_and_in_bounds(data):
    assert b"".join(split_words(data)) == data
    assert b"".join(walked_words(data)) == data


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
