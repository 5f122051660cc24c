"""Threads that share one pass over rows."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

# Called with (index, number of parts); releases the GIL while it works.
Share = Callable[[int, int], None]


class ThreadTeam:
    """A number of threads, including the caller's. For one caller at a time."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads - 1, "rows") if threads > 1 else None

    def share(self, work: Share) -> None:
        """Run `work(i, n)` for every i < n in parallel; return when all have ended.

        Part i is the same in every call, but may run in another thread.
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
def team_of(threads: int) -> ThreadTeam:
    """The shared team of that size; callers use it one after the other."""
    return ThreadTeam(threads)
