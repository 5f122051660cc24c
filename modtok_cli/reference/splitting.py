r"""Text to words by the pattern itself.

Python's `re` knows no `\p{…}`, and another Unicode than the engine that patterns are written for.
So characters beyond ASCII are replaced by one that stands for their class, and the classes in the
pattern by ranges of ASCII and those characters. Word ends do not move.
"""

from __future__ import annotations

import re
from functools import cache

import numpy as np

from modtok_cli.core.text import classes

LETTER, NUMBER, SPACE, MARK, UPPER, LOWER = 1, 2, 3, 4, 5, 6  # classes of the core
_FIRST = 0xE000  # private use: in no class of Python's
_LONG_S = 0x17F  # which the engine and Python take for an s where case is ignored


def _of(*classes: int) -> str:
    return "".join(chr(_FIRST + each) for each in classes)


_CLASSES = {
    r"\p{L}": "A-Za-zſ" + _of(LETTER, UPPER, LOWER),
    r"\p{Lu}": "A-Z" + _of(UPPER),
    r"\p{Lt}": "",  # upper case in the tables
    r"\p{Ll}": "a-zſ" + _of(LOWER),
    r"\p{Lm}": "",  # both are letters without case
    r"\p{Lo}": _of(LETTER),
    r"\p{M}": _of(MARK),
    r"\p{N}": "0-9" + _of(NUMBER),
    r"\s": "\\t-\\r " + _of(SPACE),
}
_PARTS = re.compile(r"\\p\{\w+\}|\\.|[\[\]]|[^\\\[\]]+")


@cache
def _translated(pattern: str) -> re.Pattern[str]:
    """The pattern over representatives of classes."""
    out = []
    inside = False
    for part in _PARTS.findall(pattern):
        if part in "[]":
            inside = part == "["
        elif part in _CLASSES:
            part = _CLASSES[part] if inside else f"[{_CLASSES[part]}]"
        elif part == r"\S":
            part = f"[^{_CLASSES[chr(92) + 's']}]"
        out.append(part)
    return re.compile("".join(out))


def split(pattern: str, text: bytes) -> list[bytes]:
    """The words of a text in UTF-8 by the pattern of a pre-tokenizer; together they are the text.

    >>> split(r" ?[\\p{L}\\p{M}]+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+", "Ölfaß, 12".encode())[1:]
    [b',', b' 12']
    """
    characters = text.decode()
    if r"\p" not in pattern:
        return [word.encode() for word in re.findall(pattern, characters)]
    mapped = characters
    if not text.isascii():
        points = np.frombuffer(characters.encode("utf-32-le"), dtype="<u4")
        known = (points < 0x80) | (points == _LONG_S)
        kinds = classes(r"\p{Lu}" in pattern)[points].astype("<u4")
        mapped = np.where(known, points, kinds + _FIRST).tobytes().decode("utf-32-le")
    found = _translated(pattern).finditer(mapped)
    return [characters[match.start() : match.end()].encode() for match in found]
