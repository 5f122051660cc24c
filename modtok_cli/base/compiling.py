"""Compilation of kernels, reported while it happens.

numba stores compiled kernels on disk, so a machine compiles them once. That takes half a
minute, which must not look like a stuck command.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from modtok_cli.base.progress import Progress, Task

if TYPE_CHECKING:
    from numba.core.event import Event

LABEL = "compiling kernels, once"


class Compilation:
    """Kernels compiled so far, with a bar that opens at the first one."""

    def __init__(self, progress: Progress, opened: ExitStack) -> None:
        self.kernels = 0
        self._progress = progress
        self._opened = opened
        self._task: Task | None = None

    def start(self) -> None:
        """A kernel is being compiled: tell the user, if it is the first."""
        if self._task is None:
            self._progress.note(f"{LABEL}: later starts load them from disk")
            self._task = self._opened.enter_context(
                self._progress.task(LABEL, total=None, unit="kernels")
            )

    def end(self) -> None:
        """A kernel is compiled."""
        self.kernels += 1
        if self._task is not None:
            self._task.advance(1)


@contextmanager
def compiling(progress: Progress) -> Iterator[Compilation]:
    """Report the kernels that are compiled within the block; nothing if there are none."""
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Event) -> None:
            compilation.start()

        def on_end(self, event: Event) -> None:
            compilation.end()

    with ExitStack() as opened:
        compilation = Compilation(progress, opened)
        with event.install_listener("numba:compile", Listener()):
            yield compilation
