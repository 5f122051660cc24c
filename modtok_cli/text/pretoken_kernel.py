"""The `bpe` pre-tokenizer as a kernel over UTF-8 bytes: where does the word end?

Written to be inlined into larger kernels (counting, encoding), so it carries no signature
of its own: it is compiled, and cached, as part of whichever kernel calls it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from modtok_cli.text.bits import load64, trailing_zeros

Bytes = npt.NDArray[np.uint8]

# Bit c of a set says that class c of `pretokens` continues the run.
_WORD_RUN = (1 << 1) | (1 << 4)  # letters and marks
_NUMBER_RUN = 1 << 2
_SPACE_RUN = 1 << 3
_SYMBOL_RUN = (1 << 0) | (1 << 4)  # anything else; marks inside it go along


@njit(cache=True, nogil=True)
def class_at(data: Bytes, at: int, stop: int, table: Bytes) -> int:
    """Class and byte length of the code point at `at`, as `class * 8 + length`.

    Bytes that are no UTF-8 count as one `OTHER` each, so that no input reads out of bounds.
    """
    lead = np.uint32(data[at])
    if lead < 0x80:
        return int(table[lead]) * 8 + 1
    if lead < 0xC2 or lead > 0xF4:
        return 1
    if lead < 0xE0:
        if at + 2 > stop:
            return 1
        point = ((lead & 0x1F) << 6) | (np.uint32(data[at + 1]) & 0x3F)
        return int(table[point]) * 8 + 2
    if lead < 0xF0:
        if at + 3 > stop:
            return 1
        point = (
            ((lead & 0x0F) << 12)
            | ((np.uint32(data[at + 1]) & 0x3F) << 6)
            | (np.uint32(data[at + 2]) & 0x3F)
        )
        return int(table[point]) * 8 + 3
    if at + 4 > stop:
        return 1
    point = (
        ((lead & 0x07) << 18)
        | ((np.uint32(data[at + 1]) & 0x3F) << 12)
        | ((np.uint32(data[at + 2]) & 0x3F) << 6)
        | (np.uint32(data[at + 3]) & 0x3F)
    )
    if point >= 0x110000:
        return 1
    return int(table[point]) * 8 + 4


@njit(cache=True, nogil=True)
def not_letters(eight: np.uint64) -> np.uint64:
    """Bit 7 of each byte of `eight` that is no ASCII letter; all other bits are 0."""
    high = np.uint64(0x8080808080808080)
    # Lower case, without bit 7: then a letter is what reaches "a" but does not pass "z".
    low = (eight & ~high) | np.uint64(0x2020202020202020)
    from_a = low + np.uint64(0x1F1F1F1F1F1F1F1F)
    past_z = low + np.uint64(0x0505050505050505)
    return ~((from_a ^ past_z) & ~eight) & high


@njit(cache=True, nogil=True)
def word_end(data: Bytes, start: int, stop: int, table: Bytes) -> int:
    """End of the word of the `bpe` pattern that begins at `start` (start < stop).

    data (B,) uint8, UTF-8; `start` must be where a word begins; text ends at `stop`;
    `table` is `pretokens.class_table()`.

    For the bytes of "a  b!" the ends are 1 (from 0), 3 (from 1), 4 (from 3), 5 (from 4).
    """
    found = class_at(data, start, stop, table)
    at = start + (found & 7)
    kind = found >> 3
    if data[start] == 0x20 and at < stop:
        # One space goes along with what follows it, unless that is white space too.
        found = class_at(data, at, stop, table)
        kind = found >> 3
        at += found & 7
    if kind == 1 or kind == 4:
        run = _WORD_RUN
    elif kind == 2:
        run = _NUMBER_RUN
    elif kind == 3:
        run = _SPACE_RUN
    else:
        run = _SYMBOL_RUN
    while at < stop:
        if run == _WORD_RUN and at + 8 <= stop:
            # Eight bytes at a time: step over the ASCII letters among them.
            outside = not_letters(load64(data, at))
            if outside == 0:
                at += 8
                continue
            at += trailing_zeros(outside) >> 3
            if data[at] < 0x80:
                break
        lead = data[at]
        if lead < 0x80:
            if (run >> table[lead]) & 1 == 0:
                break
            at += 1
        else:
            found = class_at(data, at, stop, table)
            if (run >> (found >> 3)) & 1 == 0:
                break
            at += found & 7
    return at
