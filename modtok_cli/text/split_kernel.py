"""Split text into words block by block, by the kernels of any pre-tokenizer."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modtok_cli.base.jit import njit
from modtok_cli.text.indirect import call_split_block, call_word_end

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int32]

BLOCK = 1 << 15
"""Bytes split at a time; the scratch arrays of that size stay in the second-level cache."""

MOST_WORDS = BLOCK + 2
"""Room for the ends of the words of any block."""

_APOSTROPHE = 0x27


@njit()
def next_block(
    data: Bytes,
    start: int,
    stop: int,
    entry: Ints,
    table: Bytes,
    ends: Positions,
) -> int:
    """Ends of the first words of data[start:stop], relative to `start`; gives their number.

    A word begins at `start`, and text ends at `stop`. As many whole words as one block holds,
    at least one; the next block starts at `start + ends[words - 1]`, also when a single word is
    far longer than a block. entry, table: a `pretokenizer.Splitter`.

    Shapes: data (B,) uint8, UTF-8, with `PADDING` more bytes; ends (n,) int32 with n of at least
    min(BLOCK, stop - start) + 2.
    """
    if entry[1] == 0:
        words = 0
        at = start
        while at < stop and at < start + BLOCK:
            at = int(call_word_end(entry[0], data, at, stop, table))
            ends[words] = at - start
            words += 1
        return words
    if stop - start <= BLOCK:
        return int(call_split_block(entry[1], data, start, stop, table, ends))
    edge = start + BLOCK
    while edge > start + BLOCK - 4 and data[edge] & 0xC0 == 0x80:
        edge -= 1  # not within a code point
    for back in range(1, 4):
        if data[edge - back] == _APOSTROPHE:  # 's and 've need what follows
            edge -= back
            break
    words = int(call_split_block(entry[1], data, start, edge, table, ends))
    # The last one may continue beyond the edge; others may depend on what is there.
    certain = edge - start - entry[2]
    words -= 1
    while words > 0 and ends[words - 1] > certain:
        words -= 1
    if words > 0:
        return words
    ends[0] = call_word_end(entry[0], data, start, stop, table) - start
    return 1
