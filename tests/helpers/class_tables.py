r"""Make `classes.inc` and `cases.inc` of the core: code points in the engine of `tokenizers`.

    PYTHONPATH=tests python -m helpers.class_tables

Run it when the library moves to a newer Unicode (a test compares them).
"""

from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap

import numpy as np

from modtok_cli.base.arrays import UInt8Array
from modtok_cli.core.text import CODE_POINTS, LETTER, LOWER, MARK, NUMBER, SPACE, UPPER

_CLASSES = {LETTER: r"\p{L}", NUMBER: r"\p{N}", SPACE: r"\s", MARK: r"\p{M}"}
CASES = {UPPER: r"[\p{Lu}\p{Lt}]", LOWER: r"\p{Ll}"}
_LEGEND = "1 letter, 2 number, 3 white space, 4 mark; all else is 0"
SOURCES = Path(__file__).parents[2] / "modtok_cli" / "core" / "src"
_SURROGATES = range(0xD800, 0xE000)
_CHUNK = 4096  # the library takes time with the square of a text's matches


def ask_engine(classes: Mapping[int, str] = _CLASSES) -> UInt8Array:
    """Class of every code point by the installed `tokenizers`; shape (0x110000,) uint8."""
    from tokenizers import Regex, pre_tokenizers

    points = np.array([c for c in range(CODE_POINTS) if c not in _SURROGATES])
    text = "".join(map(chr, points))
    table = np.zeros(CODE_POINTS, dtype=np.uint8)
    for kind, pattern in classes.items():
        # Matches are removed, so what no remaining piece covers is in the class.
        inside = np.ones(len(points), dtype=bool)
        splitter = pre_tokenizers.Split(Regex(pattern + "+"), "removed")
        for first in range(0, len(text), _CHUNK):
            for _, (start, stop) in splitter.pre_tokenize_str(text[first : first + _CHUNK]):
                inside[first + start : first + stop] = False
        table[points[inside]] = kind
    return table


def render(table: UInt8Array, library: str, cases: bool = False) -> str:
    """The table as rows of C: first and last code point and class of each run."""
    cuts = np.flatnonzero(np.diff(table)) + 1
    starts = [0, *cuts.tolist()]
    stops = [*cuts.tolist(), len(table)]
    legend = "5 upper or title case, 6 lower case" if cases else _LEGEND
    lines = [
        f"// Classes of code points ({legend})",
        f"// as the regular-expression engine of tokenizers {library} has them.",
        "// Made by: tests/helpers/class_tables.py",
    ]
    rows = [
        f"{{0x{start:X},0x{stop - 1:X},{table[start]}}},"
        for start, stop in zip(starts, stops, strict=True)
        if table[start]
    ]
    lines += wrap(" ".join(rows), 100)
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the files into the sources of the core."""
    import tokenizers

    for file, cases in (("classes.inc", False), ("cases.inc", True)):
        table = ask_engine(CASES if cases else _CLASSES)
        (SOURCES / file).write_text(render(table, tokenizers.__version__, cases))


if __name__ == "__main__":
    main()
