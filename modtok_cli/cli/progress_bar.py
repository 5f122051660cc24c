"""Progress bars with rate and remaining time, notes and warnings on standard error.

Implements `base.progress.Progress`. Bars are drawn only if standard error is a terminal, else long
tasks say a line now and then; notes and warnings are plain lines. --quiet prints only warnings.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from modtok_cli.base.progress import Task
from modtok_cli.cli.output import one_line, say
from modtok_cli.reports.tables import format_bytes

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID


SILENCE = 30.0


class CommandProgress:
    """Bars, notes and warnings on standard error, as commands have them."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._quiet = quiet
        self.draws = not quiet and _stderr_is_terminal()
        self.verbose = verbose
        self._bars: Bars | None = None
        self._open = 0
        self.said = time.monotonic()
        self._lock = threading.Lock()

    @contextmanager
    def task(self, label: str, total: float | None, unit: str) -> Iterator[Task]:
        """Draw a bar until the block ends; nested and parallel tasks share one display."""
        if not self.draws:
            yield _Line(self, label, total, unit)
            return
        bars = self._start()
        bar = _Bar(bars, bars.add_task(one_line(label), total=total, unit=unit))
        try:
            yield bar
        finally:
            bars.remove_task(bar.id)
            self._stop()

    def note(self, text: str) -> None:
        """Print one line, unless --quiet."""
        if not self._quiet:
            self.said = time.monotonic()
            self._say(text)

    def warn(self, text: str) -> None:
        """Print one warning line, even with --quiet."""
        self._say(f"modtok: warning: {text}")

    def _start(self) -> Bars:
        with self._lock:  # tasks start and end in any thread
            if self._bars is None:
                self._bars = _bars()
                self._bars.start()
            self._open += 1
            return self._bars

    def _stop(self) -> None:
        with self._lock:
            self._open -= 1
            if self._open == 0 and self._bars is not None:
                self._bars.stop()
                self._bars = None

    def _say(self, text: str) -> None:
        line = one_line(text)
        bars = self._bars
        if bars is not None:
            from rich.text import Text

            bars.console.print(Text(line), soft_wrap=True)
        else:
            say(line)


class _Line:
    """A task that is not drawn: a line of it after each `SILENCE` seconds in which none is said."""

    def __init__(
        self, progress: CommandProgress, label: str, total: float | None, unit: str
    ) -> None:
        self._progress, self._label = progress, label
        self._done, self._total, self._unit = 0.0, total, unit
        self._began = time.monotonic()

    def advance(self, amount: float = 1) -> None:
        self._done += amount
        last = max(self._began, self._progress.said)
        if time.monotonic() - last >= SILENCE:
            done = done_of(self._done, self._total, self._unit)
            self._progress.note(f"{self._label}: {done}")

    def describe(self, text: str) -> None:
        self._label = text


class _Bar:
    """A task of the display; thread-safe, since rich locks."""

    def __init__(self, bars: Bars, task: TaskID) -> None:
        self._bars = bars
        self.id = task

    def advance(self, amount: float = 1) -> None:
        self._bars.advance(self.id, amount)

    def describe(self, text: str) -> None:
        self._bars.update(self.id, description=one_line(text))


def _bars() -> Bars:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn
    from rich.text import Text

    class WordColumn(ProgressColumn):
        def __init__(self, words: Callable[[Any], str]) -> None:
            super().__init__()
            self._words = words

        def render(self, task: Any) -> Text:
            return Text(self._words(task))

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=16),
        WordColumn(lambda task: done_of(task.completed, task.total, task.fields["unit"])),
        WordColumn(lambda task: rate_of(task.finished_speed or task.speed, task.fields["unit"])),
        WordColumn(lambda task: left_of(task.time_remaining, task.elapsed, task.total)),
        console=Console(stderr=True, highlight=False),
        transient=True,
        refresh_per_second=5,
    )


def done_of(done: float, total: float | None, unit: str) -> str:
    """Return the completed and total amount.

    >>> done_of(1200, 24000, "tokens"), done_of(900, 10_240, "B"), done_of(7, None, "tokens")
    ('1,200/24,000 tokens', '900 B/10.2 kB', '7 tokens')
    """
    if unit == "%":
        return f"{done:.0f}%"
    if not unit:
        return ""
    if unit == "B":
        return format_bytes(done) + ("" if total is None else f"/{format_bytes(total)}")
    whole = "" if total is None else f"/{format_amount(total)}"
    return f"{format_amount(done)}{whole} {unit}"


def rate_of(speed: float | None, unit: str) -> str:
    """Return the amount per second; "" where it is not known, or says nothing.

    >>> rate_of(2_500_000, "B"), rate_of(0.25, "rounds"), rate_of(3, "%")
    ('2.5 MB/s', '0.25 rounds/s', '')
    """
    if speed is None or unit in ("", "%"):
        return ""
    if unit == "B":
        return f"{format_bytes(speed)}/s"
    return f"{speed:.2g} {unit}/s" if 0 < speed < 10 else f"{format_amount(speed)} {unit}/s"


def left_of(left: float | None, elapsed: float | None, total: float | None) -> str:
    """Return the remaining time, or the time so far of a task without a total.

    >>> left_of(75, 3, 100), left_of(None, 3, 100), left_of(None, 3725.4, None)
    ('ETA 1:15', 'ETA -:--', '1:02:05')
    """
    if total is None:
        return "" if elapsed is None else _clock(elapsed)
    return "ETA -:--" if left is None else f"ETA {_clock(left)}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def format_amount(value: float) -> str:
    """Return a short count for a bar.

    >>> format_amount(1_234_567), format_amount(24_000)
    ('1.2 M', '24,000')
    """
    for size, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= size:
            return f"{value / size:.1f} {prefix}"
    return f"{value:,.0f}"


def _stderr_is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):
        return False
