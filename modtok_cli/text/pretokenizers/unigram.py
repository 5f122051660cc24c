r"""The pre-tokenizer `unigram`: splits where SentencePiece's pieces never reach across.

A word takes all the spaces before it ("a  b": "a" and "  b", whose pieces may be two spaces and
"b", or one space and " b"); every digit is a word; tabs and line ends are apart. Only ASCII is
looked at: a no-break space is a symbol like any other, as it is to SentencePiece. So every byte
beyond ASCII belongs to a word and no character has to be decoded.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt

from modtok_cli.text.pretokenizer import PreTokenizer, lazy_module

masks = lazy_module("modtok_cli.text.mask_kernel")

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int32]


@cache
def byte_table() -> Bytes:
    """Class of every byte; shape (256,) uint8, read-only.

    1 space, 2 digit, 3 other ASCII white space (0x09 to 0x0D), 0 all else.
    """
    table = np.zeros(256, dtype=np.uint8)
    table[0x20] = 1
    table[0x30:0x3A] = 2
    table[0x09:0x0E] = 3
    table.setflags(write=False)
    return table


def word_end(data: Bytes, start: int, stop: int, table: Bytes) -> int:
    """End of the word of the `unigram` pattern that begins at `start` (start < stop).

    data (B,) uint8; text ends at `stop`; `table` is `byte_table()`.

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


def split_block(data: Bytes, start: int, stop: int, table: Bytes, ends: Positions) -> int:
    """Ends of the words of data[start:stop], relative to `start`; gives their number.

    A word begins at `start`. The last end is always `stop - start`; the caller knows whether
    that word continues beyond `stop`. data (B,) uint8, with `PADDING` more bytes; ends
    (≥ stop - start,) int32.
    """
    return masks.unigram_words(data, start, stop, ends)  # type: ignore[no-any-return]


PRETOKENIZER = PreTokenizer(
    "unigram",
    r" *[^ \t\n\x0B\f\r0-9]+|[0-9]| +|[\t\n\x0B\f\r]+",
    word_end=word_end,
    split_block=split_block,
    table=byte_table,
)
