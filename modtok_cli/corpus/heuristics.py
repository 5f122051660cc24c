"""Detect paragraphs that are not text, by length and symbols, in any script."""

import re

import numpy as np
import numpy.typing as npt

from modtok_cli.core.text import classes
from modtok_cli.corpus.elements import BREAK

_LETTER, _SPACE, _MARK = 1, 3, 4  # of the character class table
MIN_CHARACTERS = 200
"""Minimum number of characters of a page after all paragraphs were checked."""
MIN_LETTERS = 0.5
"""Minimum share of letters and marks among non-space characters of a paragraph."""
MAX_LOST = 0.5
"""Maximum share of a page that may be dropped as symbols; a page above it is a table or code."""

# Longer than any word in any script; keys, hashes, base64 and minified code are.
_LONGEST_WORD = 80
_NO_WORD = re.compile(rf"[!-~]{{{_LONGEST_WORD},}}")


def faults(text: str) -> list[str | None]:
    """Why each line is not text: "symbols", "no words" or "broken characters"; None for text.

    A preformatted block or table (`content`) may have any symbols, and some such strings.

    >>> faults("Hyvää päivää!\\n| --- | 12.30 | --- |\\ncaf\\ufffd au lait")
    [None, 'symbols', 'broken characters']
    """
    lines = text.split("\n")
    has_broken = "\ufffd" in text
    has_long = max(map(len, text.split()), default=0) >= _LONGEST_WORD
    reasons: list[str | None] = []
    for line, share in zip(lines, letter_shares(text).tolist(), strict=True):
        if has_broken and "\ufffd" in line:
            reasons.append("broken characters")
        elif share < MIN_LETTERS and not line.startswith(BREAK):
            reasons.append("symbols")
        elif has_long and _is_no_word(line):
            reasons.append("no words")
        else:
            reasons.append(None)
    return reasons


def _is_no_word(line: str) -> bool:
    found = sum(map(len, _NO_WORD.findall(line)))
    return 2 * found > len(line) if line.startswith(BREAK) else found > 0


def letter_shares(text: str) -> npt.NDArray[np.float64]:
    """Share of letters and marks among non-space characters of each line; 0 for an empty line.

    All lines are classified at once with the table of the pre-tokenizer, ten times as fast as a
    regular expression per line.

    >>> letter_shares("ab 12\\nनमस्ते").tolist()
    [0.5, 1.0]
    """
    points = np.frombuffer((text + "\n").encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    kinds = classes()[points]
    ends = np.flatnonzero(points == 10)
    starts = np.concatenate([np.zeros(1, dtype=np.int64), ends[:-1] + 1])
    letters = np.add.reduceat((kinds == _LETTER) | (kinds == _MARK), starts, dtype=np.int64)
    solid = np.add.reduceat(kinds != _SPACE, starts, dtype=np.int64)
    shares: npt.NDArray[np.float64] = letters / np.maximum(solid, 1)
    return shares
