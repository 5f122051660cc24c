"""Several files or languages at a time, under one progress bar, ending together."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from pathlib import Path
from typing import TypeVar

from modtok_cli.base.progress import Progress, Task
from modtok_cli.text.streams import Advance, is_pipe

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Stopped(Exception):
    """Another thread failed, or the user broke off; nobody sees this one."""


class _Shared:
    """What the threads share: the progress, and the order to stop."""

    def __init__(self, task: Task) -> None:
        self.stop = threading.Event()
        self._task = task

    def advance(self, amount: float = 1) -> None:
        """Called for every piece of a file, so a thread that is to stop does so soon."""
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
    """`read(item, advance)` of each item, in order, on `threads` threads (default: the cores).

    Progress counts the bytes of `files`, all that the items stand for. When one fails the
    others are stopped, the earlier ones too; of several that have failed by then the first
    in order is raised.
    """
    threads = min(threads or cores(), len(items))
    with progress.task(label, _total(files), "B") as task:
        if threads <= 1:
            return [read(item, task.advance) for item in items]
        shared = _Shared(task)
        with ThreadPoolExecutor(threads) as pool:
            futures = [pool.submit(read, item, shared.advance) for item in items]
            try:
                wait(futures, return_when=FIRST_EXCEPTION)
            finally:  # when all are done there is nothing left to stop
                for future in futures:
                    future.cancel()
                shared.stop.set()
        # One that was stopped or never began is no failure of its own, and there is another.
        failed = [
            error
            for future in futures
            if not future.cancelled() and (error := future.exception()) is not None
        ]
        for error in failed:
            if not isinstance(error, _Stopped):
                raise error
        return [future.result() for future in futures]


def _total(files: Iterable[Path | str]) -> int | None:
    """Bytes of `files` on disk; None with a pipe among them."""
    total = 0
    for file in files:
        if is_pipe(file):
            return None
        if Path(file).exists():
            total += Path(file).stat().st_size
    return total


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
