"""Inequality of a cost over languages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def gini(values: Sequence[float]) -> float:
    """Gini coefficient: 0 if all values are equal, near 1 if one has everything.

    G = Σ_i Σ_j |x_i − x_j| / (2 n² · mean). For 1, 1, 2: the sum of differences over all
    ordered pairs is 4, the mean 4/3, so G = 4 / (2 · 9 · 4/3) = 1/6.

    >>> round(gini([1, 1, 2]), 4)
    0.1667

    Raises:
        ValueError: there are no values, or a value is negative.
    """
    data = np.sort(np.asarray(values, dtype=np.float64))
    if not len(data) or data[0] < 0:
        raise ValueError("gini needs values that are 0 or more")
    total = float(data.sum())
    if total == 0:
        return 0.0
    n = len(data)
    # The same sum over sorted values, in n instead of n² steps.
    weights = 2 * np.arange(1, n + 1) - n - 1
    return float(weights @ data / (n * total))


def spread(values: Sequence[float]) -> dict[str, float]:
    """Mean, min, max, max/min and Gini of positive values."""
    low, high = min(values), max(values)
    return {
        "mean": float(np.mean(values)),
        "min": low,
        "max": high,
        "max_min": high / low if low else float("inf"),
        "gini": gini(values),
    }
