"""Detect loss spikes: steps whose loss of a language is far above its recent losses."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

import numpy as np

WINDOW = 500
"""Number of steps that a loss is compared with."""

_LEAST = 20
_FACTOR = 6.0
# A standard deviation is 1.4826 median absolute deviations of a normal distribution.
_DEVIATION = 1.4826
_SMALLEST = 0.01


class SpikeDetector:
    """Compares the losses of a step with those of the last `WINDOW` steps, by language.

    The loss of a language, in nats per token, is a spike if it exceeds m + 6 · s, where m is
    the median of the language's losses in the window, and s the larger of their median absolute
    deviation · 1.4826 and m / 100. Median and deviation do not move with a few spikes. Languages
    differ in their losses, so each has its own window; with fewer than 20 losses there is no
    spike.
    """

    def __init__(self) -> None:
        self._losses: dict[str, deque[tuple[int, float]]] = {}

    def add(self, line: Mapping[str, Any]) -> dict[str, dict[str, float]]:
        """Add a step's line of metrics: its spikes by language, with loss, median and limit."""
        found = {}
        for language, figures in line["languages"].items():
            loss = float(figures["nats_per_token"])
            losses = self._losses.setdefault(language, deque())
            while losses and losses[0][0] < line["step"] - WINDOW:
                losses.popleft()
            if len(losses) >= _LEAST:
                values = np.array([value for _, value in losses])
                median = float(np.median(values))
                spread = _DEVIATION * float(np.median(np.abs(values - median)))
                limit = median + _FACTOR * max(spread, _SMALLEST * median)
                if loss > limit:
                    found[language] = {"loss": loss, "median": median, "limit": limit}
            losses.append((line["step"], loss))
        return found
