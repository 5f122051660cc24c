"""Several files or languages in parallel, under one progress bar."""

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

from modtok_cli.base.progress import Progress, Task
from modtok_cli.base.remote import path_of
from modtok_cli.text.streams import Advance, is_pipe

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Stopped(Exception):
    """Another thread failed, or the user interrupted; never shown."""


class _Shared:
    """State shared by the threads: progress and the stop flag."""

    def __init__(self, task: Task) -> None:
        self.stop = threading.Event()
        self._task = task

    def advance(self, amount: float = 1) -> None:
        """Called for every piece of a file, so that a thread stops soon."""
        if self.stop.is_set():
            raise _Stopped
        self._task.advance(amount)


def read_each(
    read: Callable[[Item, Advance], Result],
    items: Sequence[Item],
    *,
    files: Iterable[Path | str],
    label: str,
    threads: int | None,
    progress: Progress,
) -> list[Result]:
    """Call `read(item, advance)` for each item, on `threads` threads; return the results in order.

    Progress counts the bytes of `files`, the files of all items. When an item fails, all
    others are stopped; of several errors, the error of the first item in order is raised.
    """
    threads = min(threads or cores(), len(items))
    with progress.task(label, total_bytes(files), "B") as task:
        if threads <= 1:
            return [read(item, task.advance) for item in items]
        shared = _Shared(task)
        from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(read, item, shared.advance) for item in items]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:  # no effect when all are done
                for future in futures:
                    future.cancel()
                shared.stop.set()
        # A stopped or never started item has no error of its own; another one has.
        failed = [
            error
            for future in futures
            if not future.cancelled() and (error := future.exception()) is not None
        ]
        for error in failed:
            if not isinstance(error, _Stopped):
                raise error
        return [future.result() for future in futures]


def total_bytes(files: Iterable[Path | str]) -> int | None:
    """Return bytes of `files` on disk; None with a pipe among them."""
    total = 0
    for file in files:
        if is_pipe(file):
            return None
        if (path := path_of(file)).exists():
            total += path.stat().st_size
    return total


def cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
