"""Where phrases can be cut without a change to their tokens.

A segmentation of a phrase into the fewest tokens is found by search over the whole phrase, and
hardly any phrase occurs twice. But no path passes a position inside a phrase that no token of the
vocabulary matches across: the parts on its two sides, chunks, are segmented independently.
They are short and often repeated, so a cache of words serves them.

Only few tokens may match across the end of a word of `bpe`: superwords, and some odd ones. These
are in a trie behind the table of classes and of the pairs of bytes that such a token begins with.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modtok_cli.base.jit import njit
from modtok_cli.learn.trie_kernel import base_of, label_of, value_of
from modtok_cli.text.bits import load64
from modtok_cli.text.code_point_kernel import class_at
from modtok_cli.text.pretokenizers.bpe import word_end as bpe_word_end

Bytes = npt.NDArray[np.uint8]

PAIRS = 0x110000
"""Place of the bits of pairs of bytes in the table, after the class of each code point."""
UNITS = PAIRS + (1 << 13)
"""Place of the units of the trie in the table."""
_NUMBER, _SPACE = 2, 3

word_end = njit(cache=True, nogil=True)(bpe_word_end)


def chunk_end(data: Bytes, start: int, stop: int, table: Bytes) -> int:
    """End of the chunk that begins at `start` (start < stop); a `word_end` of a pre-tokenizer.

    data (B,) uint8, UTF-8; table (UNITS + 8 * U,) uint8: `code_points.class_table()`; of the
    tokens that may match across the end of a word, the bit a | b << 8 for their first bytes a, b,
    and their trie.
    """
    begin = start
    reach = start  # where the farthest match from this chunk ends
    root = base_of(load64(table, UNITS))
    while True:
        end = word_end(data, begin, stop, table)
        if end == stop:
            return end
        kind = class_at(data, begin, stop, table)
        if data[begin] == 0x20 and begin + 1 < end:
            kind = class_at(data, begin + 1, stop, table)
        if kind >> 3 == _NUMBER or kind >> 3 == _SPACE:
            return end
        for first in range(begin, end):
            pair = np.int64(data[first]) | np.int64(data[first + 1]) << 8  # end < stop
            if (table[PAIRS + (pair >> 3)] >> (pair & 7)) & 1 == 0:
                continue
            at = first
            base = root
            while base != 0 and at < stop:
                byte = np.uint64(data[at])
                unit = load64(table, UNITS + 8 * (base ^ np.int64(byte)))
                if label_of(unit) != byte:
                    break
                base = base_of(unit)
                at += 1
                if value_of(unit) >= 0:
                    reach = max(reach, at)
        if reach <= end:
            return end
        # The phrase ends here if a number or more white space than one space follows.
        kind = class_at(data, end, stop, table)
        if data[end] == 0x20 and end + 1 < stop:
            kind = class_at(data, end + 1, stop, table)
        if kind >> 3 == _NUMBER or kind >> 3 == _SPACE:
            return end
        begin = end
