"""Split phrases where no token of a vocabulary matches across; see `chunks.c` of the core."""

import re
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from modtok_cli.base.arrays import BoolArray, Int64Array, UInt8Array, UInt64Array
from modtok_cli.core.binding import PADDING, Splitter
from modtok_cli.core.text import LETTER, MARK, NUMBER, OTHER, SPACE, chunk_splitter, classes, split
from modtok_cli.text.pretokenizer import BPE
from modtok_cli.tokenizer.vocabulary import Vocabulary

# Most tokens at once: one class of ASCII, after at most one space.
_PLAIN = re.compile(rb" ?(?:[A-Za-z]+|[0-9]+|[!-/:-@\[-`{-~]+)")
# The end of a word is looked up by six keys: by chance one end in 43 is found, up to 65,536 keys.
# As in `chunks.c`: bytes before the end of a word that the filter looks at, at most; as many last
# bytes of a word stand for tokens that may begin inside it.
WIDEST = 8
SUFFIXES = (1, 3)
LEFT_MULTIPLIER, RIGHT_MULTIPLIER = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
_BITS_PER_KEY, _LEAST_BITS, _MOST_BITS = 256, 12, 24
_SEPARATOR = b"1"
"""Between tokens: a word of its own, as a space before it and after it belongs to a token."""
# First class of a word of `bpe` -> the classes that continue it.
_RUNS = {
    OTHER: {OTHER, MARK},
    LETTER: {LETTER, MARK},
    NUMBER: {NUMBER},
    SPACE: {SPACE},
    MARK: {LETTER, MARK},
}


def splitter_of(tokens: Sequence[bytes]) -> Splitter:
    """The splitter of a vocabulary with superwords, of all tokens that may be used."""
    return chunk_splitter(*filter_of(tokens))


def filter_of(tokens: Iterable[bytes]) -> tuple[UInt8Array, int]:
    """Filter and shift of `chunks.c`: all ends of words that tokens may have inside.

    A key is eight bytes before the end, with zeros in place of those before the word, and eight
    bytes behind it, with zeros in place of the last.
    """
    certain, odd = [], []
    for token in tokens:
        if _has_certain_words(token):
            certain.append(token)
        elif may_span_words(token):
            odd.append(token)
    keys = np.concatenate([_keys_by_words(certain), _keys_by_bytes(odd)])
    bits = min(_MOST_BITS, max(_LEAST_BITS, (_BITS_PER_KEY * len(keys)).bit_length()))
    bitmap = np.zeros(1 << bits, dtype=np.bool_)
    bitmap[keys >> np.uint64(64 - bits)] = True
    return np.packbits(bitmap, bitorder="little"), 64 - bits


def _has_certain_words(token: bytes) -> bool:
    """Whether words end at the same places inside a token whatever is around it.

    Not if its first characters belong to what is before them: those of a mark, or of no character.
    """
    if (token[0] | token[-1] | token[:2][-1]) < 0x80:  # the second as well, if a space is first
        return True
    try:
        return _kinds(token.decode())[:1] != [MARK]
    except UnicodeDecodeError:
        return False


def _keys_by_words(tokens: Sequence[bytes]) -> UInt64Array:
    """Keys of the ends of the words of tokens."""
    data = _SEPARATOR.join([b"", *tokens, b""])
    sizes = np.array([len(token) for token in tokens], dtype=np.int64)
    stops = np.cumsum(sizes + 1)
    text = np.frombuffer(data + bytes(PADDING), dtype=np.uint8)
    ends = split(text, BPE.splitter)
    begins = np.concatenate([[0], ends[:-1]])
    token = np.searchsorted(stops, ends, side="left")
    inside = token < len(tokens)
    token, begins, ends = token[inside], begins[inside], ends[inside]
    starts = stops[token] - sizes[token]
    inside = (starts < ends) & (ends < stops[token])
    token, begins, ends, starts = token[inside], begins[inside], ends[inside], starts[inside]
    begins = np.maximum(begins, starts)
    # The first word may have begun before the token, unless a space begins it.
    whole = (begins > starts) | (text[starts] == 0x20)
    return _keys(text, begins, ends, stops[token], whole)


def _keys_by_bytes(tokens: Sequence[bytes]) -> UInt64Array:
    """Keys of all positions inside of tokens; the words before them may have any begin."""
    sizes = np.array([len(token) for token in tokens], dtype=np.int64)
    stops = np.repeat(np.cumsum(sizes), sizes)
    ends = np.arange(len(stops))
    inside = ends > stops - np.repeat(sizes, sizes)
    text = np.frombuffer(b"".join(tokens), dtype=np.uint8)
    ends, stops = ends[inside], stops[inside]
    return _keys(text, ends - 1, ends, stops, np.zeros(len(ends), dtype=np.bool_))


def _keys(
    data: UInt8Array, begins: Int64Array, ends: Int64Array, stops: Int64Array, whole: BoolArray
) -> UInt64Array:
    """Hashed keys of the ends of words: token bytes data[begin:end] before, data[end:stop] behind.

    `whole`: where the word begins at `begin`, not before.
    """
    size = np.minimum(ends - begins, WIDEST)
    suffix = np.array([0, *(max(n for n in SUFFIXES if n <= i) for i in range(1, WIDEST)), WIDEST])
    size = np.where(whole, size, suffix[size])
    left = _eight(data, ends - size, size)
    least = np.where(data[ends] == 0x20, 2, 1)
    behind = stops - ends
    size = least * np.where(behind < 2 * least, 1, 2)
    right = _eight(data, ends, np.minimum(size, behind)) << (64 - 8 * size).astype(np.uint64)
    short = behind < least  # the byte behind the token may be any
    any_byte = np.arange(256, dtype=np.uint64) << np.uint64(56)
    lefts = np.concatenate([left, np.repeat(left[short], 256)])
    rights = np.concatenate([right, (right[short][:, None] | any_byte).ravel()])
    return lefts * np.uint64(LEFT_MULTIPLIER) ^ rights * np.uint64(RIGHT_MULTIPLIER)


def _eight(data: UInt8Array, begins: Int64Array, sizes: Int64Array) -> UInt64Array:
    """data[begin:begin + size] as little-endian numbers; sizes up to 8."""
    numbers = np.zeros(len(begins), dtype=np.uint64)
    for place in range(WIDEST):
        there = np.flatnonzero(place < sizes)
        numbers[there] |= data[begins[there] + place].astype(np.uint64) << np.uint64(8 * place)
    return numbers


def superwords(vocabulary: Vocabulary) -> BoolArray:
    """Which tokens consist of several words of `bpe`; (V,) bool."""
    first = len(vocabulary.specials)
    mask = np.zeros(len(vocabulary), dtype=np.bool_)
    mask[first:] = [has_several_words(token) for token in vocabulary.tokens()[first:]]
    return mask


def has_several_words(token: bytes) -> bool:
    """Whether `bpe` splits a token, taken by itself.

    >>> [has_several_words(token) for token in (b" the", b" of the", b", and", b"  ")]
    [False, True, True, False]
    """
    if _PLAIN.fullmatch(token):
        return False
    return not _is_one_run(_kinds(token.decode(errors="ignore")))


@cache
def _classes() -> bytes:
    return classes().tobytes()


def _kinds(text: str) -> list[int]:
    """The class of each character; one space before a word belongs to it."""
    classes = _classes()
    return [classes[ord(character)] for character in text.removeprefix(" ")]


def _is_one_run(kinds: list[int]) -> bool:
    return not kinds or _RUNS[kinds[0]].issuperset(kinds)


def may_span_words(token: bytes) -> bool:
    """Whether a word of `bpe` may end inside of a match of `token`; never wrongly False.

    Not if it has one class of characters, after at most one space. A mark continues a word of
    letters or of symbols; a token that begins with one may have the end of symbols inside.

    >>> [may_span_words(token) for token in (b" the", b" of the", b",", b", and", "é".encode())]
    [False, True, False, True, False]
    """
    if _PLAIN.fullmatch(token):
        return False
    if not any(byte & 0xC0 != 0x80 for byte in token[1:]):
        return False  # one character, or a part of one
    try:
        text = token.decode()
    except UnicodeDecodeError:
        return True
    kinds = _kinds(text)
    return not _is_one_run(kinds) or (kinds[:1] == [MARK] and len(kinds) > 1)
