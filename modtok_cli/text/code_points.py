r"""Classes of code points (letter, number, white space, mark) for the pre-tokenizers.

Patterns are written for the regular-expression engine of the `tokenizers` library (Oniguruma),
which runs a published `tokenizer.json`. The kernels must split exactly as that engine does, so
the class of every code point comes from a table made by asking the engine
(`make_class_table`), not from Python's `unicodedata`: the two use different versions of Unicode,
and the engine's `\s` has U+0085 but not U+001C to U+001F.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

OTHER, LETTER, NUMBER, SPACE, MARK = 0, 1, 2, 3, 4
r"""Classes of code points: `\p{L}` 1, `\p{N}` 2, `\s` 3, `\p{M}` 4, all else 0."""

UPPER, LOWER = 5, 6
r"""Letters by case, in `case_table`: `[\p{Lu}\p{Lt}]` 5, `\p{Ll}` 6; others are `LETTER`."""

CODE_POINTS = 0x110000
CASE_FILE = "letter_cases.txt"
CLASS_FILE = "pretoken_classes.txt"


@cache
def class_table() -> npt.NDArray[np.uint8]:
    r"""Class of every code point; shape (0x110000,) uint8, shared by all callers, read-only.

    Surrogates, which no UTF-8 text holds, are `OTHER`.

    >>> table = class_table()
    >>> [int(table[ord(c)]) for c in ("a", "7", "\n", "\u0301", "!")]
    [1, 2, 3, 4, 0]
    """
    table = np.zeros(CODE_POINTS, dtype=np.uint8)
    _read(CLASS_FILE, table)
    return table


@cache
def case_table() -> npt.NDArray[np.uint8]:
    """`class_table` with `UPPER` and `LOWER`; shape (0x110000,) uint8, read-only.

    >>> table = case_table()
    >>> [int(table[ord(c)]) for c in ("A", "a", "漢", "7")]
    [5, 6, 1, 2]
    """
    table = class_table().copy()
    _read(CASE_FILE, table)
    return table


def _read(name: str, table: npt.NDArray[np.uint8]) -> None:
    """Write the classes of a file into `table`, and lock it."""
    source = Path(__file__).with_name(name).read_text(encoding="ascii")
    for line in source.splitlines():
        if not line.startswith("#"):
            first, last, kind = line.split()
            table[int(first, 16) : int(last, 16) + 1] = int(kind)
    table.setflags(write=False)
