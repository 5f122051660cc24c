"""Progress as the rooms see it: a task with a total that is advanced.

Rooms take a `Progress` and know nothing of terminals; the command line hands in one that
draws bars with rate and time left, tests and libraries use `SILENT`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Task(Protocol):
    """One running piece of work."""

    def advance(self, amount: float = 1) -> None:
        """Add `amount` to what is done; callable from any thread."""

    def describe(self, text: str) -> None:
        """Replace the text beside the bar."""


class Progress(Protocol):
    """Where a room reports how far it is."""

    def task(self, label: str, total: float | None, unit: str) -> AbstractContextManager[Task]:
        """Open a task; `unit` is "B" for bytes, else a plural such as "tokens"."""

    def note(self, text: str) -> None:
        """Say one line to the user (standard error), beside any bars."""

    def warn(self, text: str) -> None:
        """Say one line that the user should not miss; also under --quiet."""


class _SilentTask:
    def advance(self, amount: float = 1) -> None:
        pass

    def describe(self, text: str) -> None:
        pass


class Silent:
    """A progress that says nothing and keeps the warnings for whoever asks."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    @contextmanager
    def task(self, label: str, total: float | None, unit: str) -> Iterator[Task]:
        """Give a task that goes nowhere."""
        yield _SilentTask()

    def note(self, text: str) -> None:
        """Say nothing."""

    def warn(self, text: str) -> None:
        """Keep the line."""
        self.warnings.append(text)


SILENT = Silent()
