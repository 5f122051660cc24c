"""Are texts the same lines in several languages? A parity premium means nothing otherwise.

Numbers of lines must agree. Where they do not, lengths of lines tell where the texts part:
a long sentence is long in every language, so the place at which shifting one text against
the other makes lengths agree again is where a line is missing or too much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.measure.texts import Text

Floats = npt.NDArray[np.float64]

# Lines compared at a time, and the least correlation of their lengths that parallel text
# shows. Over 64 lines chance alone goes beyond 0.3 in one window of a hundred.
WINDOW = 64
LEAST = 0.3


def check_aligned(texts: Mapping[str, Text], pivot: str, progress: Progress) -> None:
    """Hold every text against that of the pivot language, line by line.

    Raises:
        ModtokError: another number of lines; says where the texts seem to part.
    """
    base = texts[pivot]
    for text in texts.values():
        if text is base:
            continue
        if text.counts.size.documents != base.counts.size.documents:
            raise _unequal(text, base)
        if text.documents is None or base.documents is None:
            continue  # word counts: numbers of lines are all there is
        ours, theirs = lengths(text.documents), lengths(base.documents)
        blank = (ours == 0) != (theirs == 0)
        if blank.any():
            line = int(np.argmax(blank)) + 1
            progress.warn(
                f"{text.name}:{line}: of this line and that of {base.name} one is empty "
                f"({int(blank.sum())} such lines)"
            )
        start = first_odd_window(ours, theirs)
        if start is not None:
            progress.warn(
                f"{text.name}:{start + 1}: from here on the lengths of lines do not go with those "
                f"of {base.name}; are these the same texts?"
            )


def lengths(documents: Sequence[bytes]) -> Floats:
    """Characters of each line; shape (D,)."""
    return np.array([len(document.decode()) for document in documents], dtype=np.float64)


def _unequal(text: Text, base: Text) -> ModtokError:
    have, want = text.counts.size.documents, base.counts.size.documents
    where = text.name
    if text.documents is not None and base.documents is not None:
        line = parting(lengths(base.documents), lengths(text.documents))
        where = f"{text.name}:{line + 1}"
    return ModtokError(
        f"not line-aligned: {have} lines in {text.language}, {want} in {base.language} "
        f"({base.name}); they seem to part here",
        where=where,
        remedy="give the same lines in every language, or measure each for itself with modtok nsl",
    )


def parting(base: Floats, other: Floats) -> int:
    """The line of `other` (from 0) from which on it is shifted against `base`.

    Before that line, line i stands against line i; from it on, line i against
    i + len(base) - len(other). The best such line is where the summed differences of log
    lengths, prefix and shifted suffix, are least.

    >>> parting(np.array([9.0, 1, 9, 9, 1, 5]), np.array([9.0, 1, 9, 1, 5]))
    3
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
    # Of the longer text, the lines between prefix and suffix have no partner: name the first.
    return min(place, max(len(other) - 1, 0)) if shift > 0 else min(place, len(other) - 1)


def first_odd_window(a: Floats, b: Floats) -> int | None:
    """First line of a run of `WINDOW` whose lengths do not go together; None if there is none."""
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
