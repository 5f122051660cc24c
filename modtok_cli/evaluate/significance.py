"""p-values of no difference between two systems on the same examples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from modtok_cli.base.arrays import Float64Array


def p_value(differences: Float64Array, observed: float) -> float:
    """Return the two-sided p-value of no difference, from bootstrap resamples shifted to zero mean.

    The observed sample counts as one resample, so p is never 0 (as in sacreBLEU).
    """
    # Tolerance for rounding: identical systems have p = 1.
    far = np.abs(differences - observed) >= abs(observed) - 1e-12
    return float((far.sum() + 1) / (len(differences) + 1))


def mcnemar(first: int, second: int) -> float:
    """Return the two-sided p-value of McNemar's exact test.

    `first` and `second`: numbers of examples that one system alone gets right. Under no difference
    each of them is the first system's with probability 1/2.

    >>> mcnemar(1, 4), mcnemar(0, 0)
    (0.375, 1.0)
    """
    count, term, total = first + second, 1, 0
    for chosen in range(min(first, second) + 1):
        total += term
        term = term * (count - chosen) // (chosen + 1)
    return min(1.0, float(2 * total / 2**count))  # exact integers of any size


def holm(values: Sequence[float | None]) -> list[float | None]:
    """Return p-values by Holm's correction (1979) over those that are given.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    places = [at for at, value in enumerate(values) if value is not None]
    places.sort(key=lambda at: values[at] or 0.0)
    corrected, least = list(values), 0.0
    for rank, at in enumerate(places):
        least = max(least, min(1.0, (len(places) - rank) * (values[at] or 0.0)))
        corrected[at] = least
    return corrected
