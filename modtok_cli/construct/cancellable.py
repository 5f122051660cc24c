"""Work in threads that ends when the main thread gives up.

A thread cannot be interrupted from outside, but all long work here reports progress, and
`advance` is where it can be told to stop: after Ctrl-C or an error elsewhere it raises.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from contextlib import contextmanager
from typing import TypeVar

from modtok_cli.base.progress import Progress, Task

Result = TypeVar("Result")


def results_of(futures: Mapping[str, Future[Result]]) -> dict[str, Result]:
    """Every result, in the order of `futures`; raises as soon as one fails, not in its turn."""
    done, _ = wait(futures.values(), return_when=FIRST_EXCEPTION)
    for future in futures.values():
        if future in done:
            future.result()  # raises, if it failed
    return {name: future.result() for name, future in futures.items()}


class Stopped(Exception):
    """The main thread does not want the result any more."""


class _CancellableTask:
    def __init__(self, task: Task, stop: threading.Event) -> None:
        self._task = task
        self._stop = stop

    def advance(self, amount: float = 1) -> None:
        if self._stop.is_set():
            raise Stopped
        self._task.advance(amount)

    def describe(self, text: str) -> None:
        self._task.describe(text)


class CancellableProgress:
    """A `Progress` that hands everything on until `stop` is set, then raises `Stopped`."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._stop = threading.Event()

    def stop(self) -> None:
        """Make every further `advance` raise."""
        self._stop.set()

    @contextmanager
    def task(self, label: str, total: float | None, unit: str) -> Iterator[Task]:
        """Open a task of the progress behind."""
        with self._progress.task(label, total, unit) as task:
            yield _CancellableTask(task, self._stop)

    @contextmanager
    def quiet_task(self, label: str, total: float | None, unit: str) -> Iterator[Task]:
        """A task that shows nothing but can be stopped."""
        from modtok_cli.base.progress import SILENT

        with SILENT.task(label, total, unit) as task:
            yield _CancellableTask(task, self._stop)

    def note(self, text: str) -> None:
        """Hand on."""
        self._progress.note(text)

    def warn(self, text: str) -> None:
        """Hand on."""
        self._progress.warn(text)


class HiddenProgress:
    """The same stop, nothing shown: for many small tasks under one visible bar."""

    def __init__(self, behind: CancellableProgress) -> None:
        self.task = behind.quiet_task
        self.note = behind.note
        self.warn = behind.warn
