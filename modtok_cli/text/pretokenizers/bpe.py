r"""The pre-tokenizer `bpe`: runs of letters and marks, of numbers, of symbols, of white space.

Each run takes at most one space before it. Marks stay with the letters they belong to
(Devanagari clusters are whole), a run of symbols takes the marks in it, and no look-ahead is
used: in "a  b" the words are "a", two spaces, and "b".

`word_end` walks one word and mispredicts where the next one ends: about 200 MB/s. `split_block`
finds the words of 64 bytes at once (`text.mask_kernel`); a property test compares both with the
regular expression.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modtok_cli.text.code_points import class_table
from modtok_cli.text.pretokenizer import PreTokenizer, lazy_module

bits = lazy_module("modtok_cli.text.bits")
masks = lazy_module("modtok_cli.text.mask_kernel")
points = lazy_module("modtok_cli.text.code_point_kernel")

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int32]

# Bit c of a set: class c of `code_points` continues the run.
_WORD_RUN = (1 << 1) | (1 << 4)  # letters and marks
_NUMBER_RUN = 1 << 2
_SPACE_RUN = 1 << 3
_SYMBOL_RUN = (1 << 0) | (1 << 4)  # anything else; marks inside it go along


def word_end(data: Bytes, start: int, stop: int, table: Bytes) -> int:
    """End of the word of the `bpe` pattern that begins at `start` (start < stop).

    data (B,) uint8, UTF-8; a word begins at `start`; text ends at `stop`; `table` is
    `code_points.class_table()`.

    For the bytes of "a  b!" the ends are 1 (from 0), 3 (from 1), 4 (from 3), 5 (from 4).
    """
    found = points.class_at(data, start, stop, table)
    at: int = start + (found & 7)
    kind = found >> 3
    if data[start] == 0x20 and at < stop:
        # One space belongs to what follows it, unless that is white space too.
        found = points.class_at(data, at, stop, table)
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
            outside = points.not_letters(bits.load64(data, at))
            if outside == 0:
                at += 8
                continue
            at += bits.trailing_zeros(outside) >> 3
            if data[at] < 0x80:
                break
        lead = data[at]
        if lead < 0x80:
            if (run >> table[lead]) & 1 == 0:
                break
            at += 1
        else:
            found = points.class_at(data, at, stop, table)
            if (run >> (found >> 3)) & 1 == 0:
                break
            at += found & 7
    return at


def split_block(data: Bytes, start: int, stop: int, table: Bytes, ends: Positions) -> int:
    """Ends of the words of data[start:stop], relative to `start`; gives their number.

    A word begins at `start`. The last end is always `stop - start`; the caller knows whether
    that word continues beyond `stop`.

    data (B,) uint8, with `PADDING` more bytes; ends (≥ stop - start,) int32.
    """
    return masks.bpe_words(data, start, stop, table, ends)  # type: ignore[no-any-return]


PRETOKENIZER = PreTokenizer(
    "bpe",
    r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+",
    word_end=word_end,
    split_block=split_block,
    table=class_table,
)
