"""Cancellation of work in threads.

A thread cannot be interrupted from outside, but all long work reports progress: after Ctrl-C
or an error elsewhere, `advance` raises.
"""

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import contextmanager
from typing import TypeVar

from modtok_cli.base.progress import Progress, Task

Result = TypeVar("Result")


def results_of(futures: Mapping[str, Future[Result]]) -> dict[str, Result]:
    """Return all results, in the order of `futures`; raise as soon as any of them fails."""
    done, _ = wait(futures.values(), return_when=FIRST_EXCEPTION)
    for future in futures.values():
        if future in done:
            future.result()  # raises, if it failed
    return {name: future.result() for name, future in futures.items()}


class Cancelled(Exception):
    """The work was cancelled."""


class _CancellableTask:
    def __init__(self, task: Task, stop: threading.Event) -> None:
        self._task = task
        self._stop = stop

    def advance(self, amount: float = 1) -> None:
        if self._stop.is_set():
            raise Cancelled
        self._task.advance(amount)

    def describe(self, text: str) -> None:
        self._task.describe(text)


class CancellableProgress:
    """A `Progress` that forwards everything until `stop`, and then raises `Cancelled`."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self.draws, self.note, self.warn = progress.draws, progress.note, progress.warn
        self._stop = threading.Event()

    def stop(self) -> None:
        """Make every further `advance` raise."""
        self._stop.set()

    @contextmanager
    def task(self, label: str, total: float | None, unit: str) -> Iterator[Task]:
        """Open a task of the wrapped progress."""
        with self._progress.task(label, total, unit) as task:
            yield _CancellableTask(task, self._stop)

    @contextmanager
    def quiet_task(self, label: str, total: float | None, unit: str) -> Iterator[Task]:
        """A task that is not displayed but can be cancelled."""
        from modtok_cli.base.progress import SILENT

        with SILENT.task(label, total, unit) as task:
            yield _CancellableTask(task, self._stop)


class HiddenProgress:
    """Cancellable but not displayed: for many small tasks under one visible bar."""

    draws = False

    def __init__(self, behind: CancellableProgress) -> None:
        self.task = behind.quiet_task
        self.note = behind.note
        self.warn = behind.warn
