r"""Classes of code points (letter, number, white space, mark), as the pre-tokenizers see them.

They come from the core, which has them from the regular-expression engine of the `tokenizers`
library (`make_class_table`), not from Python's `unicodedata`: the two use different versions of
Unicode, and the engine's `\s` has U+0085 but not U+001C to U+001F.
"""

from __future__ import annotations

from modtok_cli.base.arrays import UInt8Array
from modtok_cli.core.text import CODE_POINTS as CODE_POINTS
from modtok_cli.core.text import classes

OTHER, LETTER, NUMBER, SPACE, MARK = 0, 1, 2, 3, 4
r"""Classes of code points: `\p{L}` 1, `\p{N}` 2, `\s` 3, `\p{M}` 4, all else 0."""

UPPER, LOWER = 5, 6
r"""Letters by case, in `case_table`: `[\p{Lu}\p{Lt}]` 5, `\p{Ll}` 6; others are `LETTER`."""


def class_table() -> UInt8Array:
    r"""Class of every code point; shape (0x110000,) uint8, read-only.

    Surrogates, which no UTF-8 text holds, are `OTHER`.

    >>> table = class_table()
    >>> [int(table[ord(c)]) for c in ("a", "7", "\n", "\u0301", "!")]
    [1, 2, 3, 4, 0]
    """
    return classes()


def case_table() -> UInt8Array:
    """`class_table` with `UPPER` and `LOWER`; shape (0x110000,) uint8, read-only.

    >>> table = case_table()
    >>> [int(table[ord(c)]) for c in ("A", "a", "漢", "7")]
    [5, 6, 1, 2]
    """
    return classes(True)
