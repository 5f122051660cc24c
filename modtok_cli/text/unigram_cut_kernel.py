"""The `unigram` pre-tokenizer over a block of bytes: as `cut_kernel`, by classes of bytes.

The pattern speaks of ASCII characters only, so every byte beyond ASCII belongs to a word
and no character has to be decoded. Classes: 0 part of a word, 1 space (0x20), 2 digit,
3 other ASCII white space (0x09 to 0x0D).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int32]


@njit(cache=True, nogil=True)
def unigram_word_end(data: Bytes, start: int, stop: int, table: Bytes) -> int:
    """End of the word of the `unigram` pattern that begins at `start` (start < stop).

    data (B,) uint8; text ends at `stop`; `table` is `pretokens.byte_table()`.

    For the bytes of "a  b1" the ends are 1 (from 0), 4 (from 1), 5 (from 4).
    """
    at = start
    kind = table[data[at]]
    if kind == 2:
        return at + 1
    if kind == 1:
        while at < stop and table[data[at]] == 1:
            at += 1
        if at == stop or table[data[at]] != 0:
            return at
        kind = 0
    while at < stop and table[data[at]] == kind:
        at += 1
    return at


@njit(cache=True, nogil=True)
def cut_block_unigram(data: Bytes, start: int, stop: int, ends: Positions) -> int:
    """Write the ends of the words of data[start:stop], relative to `start`; give their number.

    A word begins at `start`. Whether the last one goes on beyond `stop` is for the caller
    to know. ends (≥ stop - start,) int32.
    """
    words = 0
    length = stop - start
    for i in range(1, length):
        byte = data[start + i]
        before = data[start + i - 1]
        digit = (np.uint8(byte - np.uint8(48)) < 10) | (np.uint8(before - np.uint8(48)) < 10)
        white = np.uint8(byte - np.uint8(9)) < 5
        white_before = np.uint8(before - np.uint8(9)) < 5
        # A space begins a word unless it follows one; it goes along with the word after it.
        space = (byte == 32) & (before != 32)
        ends[words] = i
        words += digit | space | (white != white_before)
    ends[words] = length
    return words + 1
