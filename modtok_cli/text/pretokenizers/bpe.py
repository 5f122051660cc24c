r"""The pre-tokenizer `bpe`: runs of letters and marks, of numbers, of symbols, of white space.

Each run takes at most one space before it. Marks stay with the letters they belong to
(Devanagari clusters are whole), a run of symbols takes the marks in it, and no look-ahead is
used: in "a  b" the words are "a", two spaces, and "b".

`word_end` walks one word and mispredicts where the next one ends: about 200 MB/s. In
`split_block` whether a word begins at a byte is a formula over the classes of that byte and the
two before it, which a compiler turns into vector code: about 700 MB/s on French, with the same
words (a property test compares both with the regular expression).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modtok_cli.text.code_points import class_table
from modtok_cli.text.pretokenizer import PreTokenizer, lazy_module

bits = lazy_module("modtok_cli.text.bits")
points = lazy_module("modtok_cli.text.code_point_kernel")

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int32]

# Bit c of a set: class c of `code_points` continues the run.
_WORD_RUN = (1 << 1) | (1 << 4)  # letters and marks
_NUMBER_RUN = 1 << 2
_SPACE_RUN = 1 << 3
_SYMBOL_RUN = (1 << 0) | (1 << 4)  # anything else; marks inside it go along

_ASCII_HIGH = np.uint64(0x8080808080808080)


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


def split_block(
    data: Bytes, start: int, stop: int, table: Bytes, classes: Bytes, ends: Positions
) -> int:
    """Ends of the words of data[start:stop], relative to `start`; gives their number.

    A word begins at `start`. The last end is always `stop - start`; the caller knows whether
    that word continues beyond `stop`.

    data (B,) uint8, UTF-8; scratch classes (≥ stop - start + 2,) uint8; ends (≥ stop - start,)
    int32.
    """
    length = stop - start
    # classes[i + 2] is the class of byte i; two that match nothing stand before the first.
    classes[0] = 5
    classes[1] = 5
    for i in range(length):
        byte = data[start + i]
        letter = np.uint8((byte | np.uint8(32)) - np.uint8(97)) < 26
        number = np.uint8(byte - np.uint8(48)) < 10
        space = (np.uint8(byte - np.uint8(9)) < 5) | (byte == 32)
        classes[i + 2] = (
            np.uint8(letter) + np.uint8(number) * np.uint8(2) + np.uint8(space) * np.uint8(3)
        )
    # Bytes beyond ASCII: look the code point up and give its class to each of its bytes.
    i = 0
    while i < length:
        if i + 8 <= length:
            beyond = bits.load64(data, start + i) & _ASCII_HIGH
            if beyond == 0:
                i += 8
                continue
            i += bits.trailing_zeros(beyond) >> 3
        elif data[start + i] < 0x80:
            i += 1
            continue
        while i < length and data[start + i] >= 0x80:
            # Two and three bytes, nearly all code points, have their own branches for speed.
            lead = np.uint32(data[start + i])
            if 0xC2 <= lead < 0xE0 and i + 1 < length:
                point = ((lead & 0x1F) << 6) | (np.uint32(data[start + i + 1]) & 0x3F)
                kind, size = int(table[point]), 2
            elif 0xE0 <= lead < 0xF0 and i + 2 < length:
                point = (
                    ((lead & 0x0F) << 12)
                    | ((np.uint32(data[start + i + 1]) & 0x3F) << 6)
                    | (np.uint32(data[start + i + 2]) & 0x3F)
                )
                kind, size = int(table[point]), 3
            else:
                found = points.class_at(data, start + i, stop, table)
                kind, size = found >> 3, found & 7
            if kind == 4:  # a mark joins a run of symbols, else it counts as a letter
                kind = 0 if classes[i + 1] == 0 else 1
            classes[i + 2] = kind
            if size >= 2:
                classes[i + 3] = kind
            if size >= 3:
                classes[i + 4] = kind
            if size == 4:
                classes[i + 5] = kind
            i += size
    # A word begins where the class changes, except after a single space (0x20 with no
    # white space before it), which belongs to what follows.
    words = 0
    for i in range(1, length):
        begins = (classes[i + 2] != classes[i + 1]) & (
            (data[start + i - 1] != 32) | (classes[i] == 3)
        )
        ends[words] = i
        words += begins
    ends[words] = length
    return words + 1


PRETOKENIZER = PreTokenizer(
    "bpe",
    r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+",
    word_end=word_end,
    split_block=split_block,
    table=class_table,
)
