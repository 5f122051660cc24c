"""Delays wherever work changes hands, drawn anew each time."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable


def sleeper(seed: int) -> Callable[[str], None]:
    """A hook for `OffloadedRows`: sleeps for 0 to 6 ms, by the seed and the order of calls."""
    rng, lock = random.Random(seed), threading.Lock()

    def hook(point: str) -> None:
        with lock:
            seconds = rng.choice([0, 0, 0.0003, 0.002, 0.006])
        if seconds:
            time.sleep(seconds)

    return hook
