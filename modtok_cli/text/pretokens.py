r"""Pre-tokenizers: the patterns that cut text into words, and the classes they speak of.

Patterns are for the regular-expression engine of the `tokenizers` library (Oniguruma),
which is what a published `tokenizer.json` runs. Our kernels must cut exactly as that
engine does, so they take the class of every code point from a table made by asking the
engine itself (`make_class_table`), not from Python's `unicodedata`: the two follow
different versions of Unicode, and the engine's `\s` has U+0085 but not U+001C to U+001F.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np
import numpy.typing as npt

BPE = "bpe"
UNIGRAM = "unigram"

PATTERNS: dict[str, str] = {
    BPE: r" ?[\p{L}\p{M}]+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+",
    UNIGRAM: r" *[^ \t\n\x0B\f\r0-9]+|[0-9]| +|[\t\n\x0B\f\r]+",
}
"""Scheme → pattern. Every match is a word and the matches cover the text without gaps.

`bpe`: a run of letters and marks, of numbers, or of anything else, each with at most one
space before it; white space in runs. Marks stay with the letters they sit on (Devanagari
clusters are whole), a run of symbols takes the marks in it, and no look-ahead is used:
in "a  b" the words are "a", two spaces, and "b".

`unigram`: cut where SentencePiece's pieces never reach across. A word takes all the spaces
before it ("a  b": "a" and "  b", whose pieces may be two spaces and "b", or one space and
" b"); every digit stands alone; tabs and line ends stand apart. Only ASCII is looked at: a
no-break space is a sign like any other, as it is to SentencePiece.
"""

OTHER, LETTER, NUMBER, SPACE, MARK = 0, 1, 2, 3, 4
r"""Classes of code points: `\p{L}` 1, `\p{N}` 2, `\s` 3, `\p{M}` 4, all else 0."""

CODE_POINTS = 0x110000
CLASS_FILE = "pretoken_classes.txt"


@cache
def byte_table() -> npt.NDArray[np.uint8]:
    """Class of every byte for the `unigram` pattern; shape (256,) uint8.

    1 space, 2 digit, 3 other ASCII white space, 0 all else.
    """
    table = np.zeros(256, dtype=np.uint8)
    table[0x20] = 1
    table[0x30:0x3A] = 2
    table[0x09:0x0E] = 3
    return table


def cut_table(scheme: str) -> npt.NDArray[np.uint8]:
    """The table by which the kernels cut text under a scheme."""
    return byte_table() if scheme == UNIGRAM else class_table()


@cache
def class_table() -> npt.NDArray[np.uint8]:
    r"""Class of every code point; shape (0x110000,) uint8, shared by all callers.

    Surrogates, which no UTF-8 text holds, are `OTHER`.

    >>> table = class_table()
    >>> [int(table[ord(c)]) for c in ("a", "7", "\n", "\u0301", "!")]
    [1, 2, 3, 4, 0]
    """
    table = np.zeros(CODE_POINTS, dtype=np.uint8)
    source = files("modtok_cli.text").joinpath(CLASS_FILE).read_text(encoding="ascii")
    for line in source.splitlines():
        if not line.startswith("#"):
            first, last, kind = line.split()
            table[int(first, 16) : int(last, 16) + 1] = int(kind)
    return table
