r"""The pre-tokenizer `phrases`: words of `bpe` with single spaces between them are one.

A phrase is a run of words of `bpe` that are neither numbers nor white space: it ends at a number,
at two spaces, at a tab and at the end of a line. Vocabularies with superwords, tokens of several
words, are segmented by phrase.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modtok_cli.text.code_points import class_table
from modtok_cli.text.pretokenizer import PreTokenizer, lazy_module

points = lazy_module("modtok_cli.text.code_point_kernel")

Bytes = npt.NDArray[np.uint8]


def word_end(data: Bytes, start: int, stop: int, table: Bytes) -> int:
    """End of the word that begins at `start` (start < stop).

    For the bytes of "a b, 12  c" the ends are 4 (from 0), 7 (from 4), 9 (from 7), 10 (from 9).
    """
    found = points.class_at(data, start, stop, table)
    kind = found >> 3
    at: int = start + (found & 7)
    if data[start] == 0x20 and at < stop:
        # One space belongs to what follows it, unless that is white space too.
        found = points.class_at(data, at, stop, table)
        kind = found >> 3
        at += found & 7
    if kind == 2 or kind == 3:
        while at < stop:
            found = points.class_at(data, at, stop, table)
            if found >> 3 != kind:
                break
            at += found & 7
        return at
    while at < stop:
        lead = data[at]
        if lead == 0x20:
            if at + 1 == stop:
                break
            found = points.class_at(data, at + 1, stop, table)
            kind = found >> 3
            if kind == 2 or kind == 3:
                break
            at += 1 + (found & 7)
        elif lead < 0x80:
            kind = table[lead]
            if kind == 2 or kind == 3:
                break
            at += 1
        else:
            found = points.class_at(data, at, stop, table)
            kind = found >> 3
            if kind == 2 or kind == 3:
                break
            at += found & 7
    return at


PRETOKENIZER = PreTokenizer(
    "phrases", r"(?: ?[^\s\p{N}])+| ?\p{N}+|\s+", word_end=word_end, table=class_table
)
