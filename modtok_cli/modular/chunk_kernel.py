"""Where phrases can be cut without a change to their tokens.

A segmentation of a phrase into the fewest tokens is found by search over the whole phrase, and
hardly any phrase occurs twice. But no path passes a position inside a phrase that no token of the
vocabulary matches across: the parts on its two sides, chunks, are segmented independently.
They are short and often repeated, so a cache of words serves them.

Only few tokens may match across the end of a word of `bpe`: superwords, and some odd ones. A filter
behind the table of classes tells by the bytes about the end of a word whether one may. It is wrong
only to one side: some chunks are longer than they need be, with the same tokens.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modtok_cli.base.jit import njit
from modtok_cli.text.bits import load64
from modtok_cli.text.code_point_kernel import class_at
from modtok_cli.text.pretokenizers.bpe import split_block as bpe_split_block
from modtok_cli.text.pretokenizers.bpe import word_end as bpe_word_end

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int32]

SHIFT = 0x110000
"""Place of a number in the table, after the class of each code point: 64 minus the binary logarithm
of the bits of the filter, which begins behind it."""
FILTER = SHIFT + 1
WIDEST = 8
"""Bytes before the end of a word that the filter looks at, at most; behind it, it looks at four."""
SUFFIXES = (1, 3)
"""As many last bytes of a word stand for tokens that may begin inside it."""
LEFT_MULTIPLIER, RIGHT_MULTIPLIER = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F
_NUMBER, _SPACE = 2, 3

split_block = njit()(bpe_split_block)
word_end = njit()(bpe_word_end)


@njit()
def _may_cross(data, begin, end, table):  # type: ignore[no-untyped-def]
    """Whether the filter has the end of the word data[begin:end]; never wrongly 0.

    A key is the bytes of the word back to its begin, or its suffixes, with some bytes behind: 2 and
    4 if they begin with a space, else 1 and 2.
    """
    left = load64(data, max(end - WIDEST, 0))
    if end < WIDEST:
        left <<= np.uint64(8 * (WIDEST - end))
    right = load64(data, end)
    least = np.uint64(64 - 8) - (np.uint64(8) if data[end] == 0x20 else np.uint64(0))
    multiplier = np.uint64(RIGHT_MULTIPLIER)
    one = (right << least) * multiplier
    two = (right << (np.uint64(2) * least - np.uint64(64))) * multiplier
    shift = np.uint64(table[SHIFT])
    found = 0
    for size in (min(end - begin, WIDEST), 1, 3):
        suffix = (left >> np.uint64(64 - 8 * size)) * np.uint64(LEFT_MULTIPLIER)
        for key in (suffix ^ one, suffix ^ two):
            number = np.int64(key >> shift)
            found |= table[FILTER + (number >> 3)] >> (number & 7)
    return found & 1


@njit()
def _is_apart(data, at, stop, table):  # type: ignore[no-untyped-def]
    """Whether phrases end before and after the word at `at`: numbers, all but single spaces."""
    kind = class_at(data, at, stop, table)
    if data[at] == 0x20 and at + 1 < stop:
        kind = class_at(data, at + 1, stop, table)
    return kind >> 3 == _NUMBER or kind >> 3 == _SPACE


def chunk_end(data: Bytes, start: int, stop: int, table: Bytes) -> int:
    """End of the chunk that begins at `start` (start < stop); a `word_end` of a pre-tokenizer.

    data (B,) uint8, UTF-8, with `text.word_key_kernel.PADDING` more bytes; table uint8:
    `code_points.class_table()` and the filter.
    """
    begin = start
    while True:
        end = word_end(data, begin, stop, table)
        if end == stop or not _may_cross(data, begin, end, table):
            return end
        if _is_apart(data, begin, stop, table) or _is_apart(data, end, stop, table):
            return end
        begin = end


def chunk_ends(data: Bytes, start: int, stop: int, table: Bytes, ends: Positions) -> int:
    """Ends of the chunks of data[start:stop], relative to `start`; gives their number.

    A `split_block` of a pre-tokenizer: arguments as of `chunk_end` and of `bpe.split_block`.
    """
    words = split_block(data, start, stop, table, ends)
    length = stop - start
    chunks = 0
    begin = start
    for word in range(words):
        near = ends[word]
        end = start + near
        crossed = False
        if near < length and _may_cross(data, begin, end, table):
            crossed = not (_is_apart(data, begin, stop, table) or _is_apart(data, end, stop, table))
        ends[chunks] = near
        chunks += not crossed
        begin = end
    return chunks
