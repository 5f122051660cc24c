r"""Patterns of pre-tokenizers in the syntax of JavaScript, and the classes that they use.

JavaScript has no possessive quantifiers, and its older engines no `(?i:...)`. `\p{L}`, `\p{M}`,
`\p{N}` and `\s` stay in the pattern; the page replaces them by ranges of modtok's table of code
points, since engines differ in their version of Unicode.
"""

from __future__ import annotations

import re

import numpy as np

from modtok_cli.text.code_points import LETTER, MARK, NUMBER, SPACE, class_table

_CASELESS = re.compile(r"\(\?i:([^()]*)\)")
# Letters beyond ASCII that are equal to an ASCII letter except for case.
_FOLDED = {"s": "\u017f", "k": "\u212a"}


def js_pattern(pattern: str) -> str:
    r"""A pattern of the `tokenizers` library or of tiktoken for a JavaScript `RegExp`.

    >>> js_pattern(r"'(?i:[sd]|ll)|\p{L}++|\s+$")
    "'(?:[sS\u017fdD]|[lL][lL])|\\p{L}+|\\s+$"
    """
    # A possessive quantifier differs only where the rest of a branch could need what it took.
    # The published patterns have none.
    plain = re.sub(r"(?<!\\)([*+?]|\{\d+(?:,\d*)?\})\+", r"\1", pattern)
    return _CASELESS.sub(lambda match: f"(?:{_any_case(match[1])})", plain)


def _any_case(text: str) -> str:
    found, inside = [], False
    for letter in text:
        inside = letter == "[" or (inside and letter != "]")
        if letter.isascii() and letter.isalpha():
            both = letter.lower() + letter.upper() + _FOLDED.get(letter.lower(), "")
            found.append(both if inside else f"[{both}]")
        else:
            found.append(letter)
    return "".join(found)


def js_classes() -> dict[str, str]:
    r"""The ranges of `\p{L}`, `\p{M}`, `\p{N}`, `\s` and `\S` as the inside of a character class.

    >>> js_classes()["s"][:24]
    '\\u{9}-\\u{d}\\u{20}\\u{85}'
    """
    table = class_table()
    found = {
        name: _ranges(np.flatnonzero(table == kind))
        for name, kind in (("L", LETTER), ("M", MARK), ("N", NUMBER), ("s", SPACE))
    }
    return found | {"S": _ranges(np.flatnonzero(table != SPACE))}


def _ranges(points: np.ndarray[tuple[int], np.dtype[np.intp]]) -> str:
    """Ascending code points as ranges."""
    breaks = np.flatnonzero(np.diff(points) > 1)
    firsts = points[np.concatenate([[0], breaks + 1])].tolist()
    lasts = points[np.concatenate([breaks, [len(points) - 1]])].tolist()
    return "".join(
        rf"\u{{{first:x}}}" + (rf"-\u{{{last:x}}}" if last > first else "")
        for first, last in zip(firsts, lasts, strict=True)
    )
