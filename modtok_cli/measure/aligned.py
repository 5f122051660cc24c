"""Check that texts are the same lines in several languages, as parity premiums require.

The numbers of lines must be equal. If they are not, the line where the texts diverge is estimated
from line lengths: a long sentence is long in every language, so the shift that makes the lengths
agree again is where a line is missing or added.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from modtok_cli.base.arrays import Float64Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.measure.texts import Text

# Number of lines compared at a time, and the minimum correlation of their lengths in parallel text.
# Over 64 lines a random correlation exceeds 0.3 in one window of a hundred.
WINDOW = 64
LEAST = 0.3


def check_aligned(texts: Mapping[str, Text], pivot: str, progress: Progress) -> None:
    """Compare every text with the text of the pivot language, line by line.

    Raises:
        ModtokError: the number of lines differs; names the line where the texts seem to diverge.
    """
    base = texts[pivot]
    for text in texts.values():
        if text is base:
            continue
        if text.counts.size.documents != base.counts.size.documents:
            raise _unequal(text, base)
        if text.documents is None or base.documents is None:
            continue  # word counts have no lines to compare
        ours, theirs = lengths(text.documents), lengths(base.documents)
        blank = (ours == 0) != (theirs == 0)
        if blank.any():
            line = int(np.argmax(blank)) + 1
            progress.warn(
                f"{text.name}:{line}: this line or the line of {base.name} is empty, but not both "
                f"({int(blank.sum())} such lines)"
            )
        start = first_odd_window(ours, theirs)
        if start is not None:
            progress.warn(
                f"{text.name}:{start + 1}: from this line on the lengths do not match the lines of "
                f"{base.name}; check that the texts are parallel"
            )


def lengths(documents: Sequence[bytes]) -> Float64Array:
    """Return the number of characters of each line; shape (D,)."""
    return np.array([len(document.decode()) for document in documents], dtype=np.float64)


def _unequal(text: Text, base: Text) -> ModtokError:
    have, want = text.counts.size.documents, base.counts.size.documents
    where = text.name
    if text.documents is not None and base.documents is not None:
        line = parting(lengths(base.documents), lengths(text.documents))
        where = f"{text.name}:{line + 1}"
    return ModtokError(
        f"not line-aligned: {have} lines in {text.language}, {want} in {base.language} "
        f"({base.name}); they seem to differ from this line on",
        where=where,
        remedy="provide the same lines in every language, or measure each text with modtok nsl",
    )


def parting(base: Float64Array, other: Float64Array) -> int:
    """Index of the line of `other` from which on it is shifted against `base`.

    Before that line, line i corresponds to line i; from it on, to line i + len(base) - len(other).
    The index minimizes the summed differences of log lengths of the prefix and the shifted suffix.

    >>> parting(np.array([9.0, 1, 9, 9, 1, 5]), np.array([9.0, 1, 9, 1, 5]))
    2
    """
    shift = len(base) - len(other)
    a, b = np.log1p(base), np.log1p(other)
    offset = float(np.median(b) - np.median(a)) if len(a) and len(b) else 0.0
    short = min(len(a), len(b))
    straight = np.abs(b[:short] - a[:short] - offset)
    shifted = np.abs(b[len(b) - short :] - a[len(a) - short :] - offset)
    prefix = np.concatenate([[0.0], np.cumsum(straight)])
    suffix = np.concatenate([np.cumsum(shifted[::-1])[::-1], [0.0]])
    place = int(np.argmin(prefix + suffix))
    # Lines of the longer text between prefix and suffix have no counterpart: return the first.
    return min(place, max(len(other) - 1, 0)) if shift > 0 else min(place, len(other) - 1)


def first_odd_window(a: Float64Array, b: Float64Array) -> int | None:
    """Start of the first run of `WINDOW` lines with uncorrelated lengths, or None."""
    if len(a) < WINDOW:
        return None
    x, y = np.log1p(a), np.log1p(b)
    for start in range(0, len(x) - WINDOW + 1, WINDOW):
        one, two = x[start : start + WINDOW], y[start : start + WINDOW]
        if one.std() == 0 or two.std() == 0:
            continue
        if float(np.corrcoef(one, two)[0, 1]) < LEAST:
            return start
    return None


def seem_parallel(a: Float64Array, b: Float64Array) -> bool:
    """Return whether equally many lines with these lengths seem to be the same content.

    Lengths must be correlated in every window, or over all lines if there is no whole window.

    >>> seem_parallel(np.array([9.0, 1, 5, 30]), np.array([11.0, 2, 6, 33]))
    True
    >>> seem_parallel(np.array([9.0, 1, 5, 30]), np.array([1.0, 40, 20, 2]))
    False
    >>> seem_parallel(np.array([9.0, 9, 9]), np.array([1.0, 40, 20]))  # all of one length
    False
    """
    if len(a) != len(b):
        return False
    if len(a) >= WINDOW or len(a) < 3:
        return first_odd_window(a, b) is None
    x, y = np.log1p(a), np.log1p(b)
    return bool(x.std() and y.std() and float(np.corrcoef(x, y)[0, 1]) >= LEAST)
