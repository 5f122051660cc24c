"""Threads that share one pass over rows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

# Called with (which one, of how many); releases the interpreter's lock for its work.
Share = Callable[[int, int], None]


class ThreadTeam:
    """As many threads as said, the caller among them. Not for two callers at a time."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads - 1, "rows") if threads > 1 else None

    def share(self, work: Share) -> None:
        """`work(i, n)` for every i below n, side by side; returns when all have ended.

        The same i is not always the same thread of the system, but the same part.
        """
        others = []
        if self._pool is not None:
            others = [self._pool.submit(work, i, self.threads) for i in range(1, self.threads)]
        try:
            work(0, self.threads)
        finally:
            errors = [one.exception() for one in others]
        for error in errors:
            if error is not None:
                raise error


@cache
def crew_of(threads: int) -> ThreadTeam:
    """The crew of that size that calls one after the other may use."""
    return ThreadTeam(threads)
