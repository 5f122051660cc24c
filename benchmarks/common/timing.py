"""Times of function calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def best(repeat: int, call: Callable[[], Result]) -> tuple[float, Result]:
    """Wall-clock seconds of the fastest of `repeat` calls, and the result of the last."""
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = call()
        seconds.append(time.perf_counter() - start)
    return min(seconds), result


def best_seconds(call: Callable[[], object], repeat: int) -> float:
    """Wall-clock seconds of the fastest of `repeat` calls."""
    return best(repeat, call)[0]


def first_call(call: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    return best(1, call)[0]
