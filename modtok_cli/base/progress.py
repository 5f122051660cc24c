"""The progress interface: tasks with a total.

Packages take a `Progress` and know nothing of terminals; the command line passes one that
draws bars with rate and remaining time, tests and libraries use `SILENT`.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Task(Protocol):
    """One task in progress."""

    def advance(self, amount: float = 1) -> None:
        """Add `amount` to the completed work; callable from any thread."""

    def describe(self, text: str) -> None:
        """Replace the label."""


class Progress(Protocol):
    """Receives progress, notes and warnings."""

    @property
    def draws(self) -> bool:
        """Whether tasks are visible. If not, long tasks print notes on their progress."""

    def task(self, label: str, total: float | None, unit: str) -> AbstractContextManager[Task]:
        """Open a task; `unit` is "B" for bytes, "%", a plural such as "tokens", or "" for none."""

    def note(self, text: str) -> None:
        """Print one line (standard error)."""

    def warn(self, text: str) -> None:
        """Print one line that is important; also with --quiet."""


class _SilentTask:
    def advance(self, amount: float = 1) -> None:
        pass

    def describe(self, text: str) -> None:
        pass


class Silent:
    """A progress that prints nothing and collects warnings."""

    draws = False

    def __init__(self) -> None:
        self.warnings: list[str] = []

    @contextmanager
    def task(self, label: str, total: float | None, unit: str) -> Iterator[Task]:
        """A task that is not displayed."""
        yield _SilentTask()

    def note(self, text: str) -> None:
        """Ignore."""

    def warn(self, text: str) -> None:
        """Collect the line."""
        self.warnings.append(text)


SILENT = Silent()
