"""Compilation of kernels, reported while it happens.

numba stores compiled kernels on disk, so a machine compiles them once. That takes up to half a
minute, which must not look like a stuck command. At the first kernel that is not on disk, a
command can have all that it needs compiled by other processes (`prepare`), which takes less time
than one kernel after the other. `base.kernel_storage` calls `before_compiling`, `begin` and `end`;
numba is not imported here.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from modtok_cli.base.progress import Progress, Task

LABEL = "compiling kernels, once"

_current: Compilation | None = None


class Compilation:
    """Kernels compiled in this process so far, with a bar that opens at the first one."""

    def __init__(
        self, progress: Progress, opened: ExitStack, prepare: Callable[[], bool] | None = None
    ) -> None:
        self.kernels = 0
        self._progress = progress
        self._opened = opened
        self._prepare = prepare
        self._lock = threading.Lock()
        self._task: Task | None = None
        self._is_told = False

    def prepare(self) -> bool:
        """Whether kernels were compiled by other processes; they are, the first time."""
        with self._lock:
            prepare, self._prepare = self._prepare, None
        if prepare is None or not prepare():
            return False
        self._is_told = True
        return True

    def start(self) -> None:
        """A kernel is being compiled: tell the user, if it is the first."""
        if self._task is None:
            if not self._is_told:
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
def compiling(
    progress: Progress, prepare: Callable[[], bool] | None = None
) -> Iterator[Compilation]:
    """Report the kernels that are compiled within the block; nothing if there are none.

    Within another such block this one changes nothing. `prepare` compiles kernels elsewhere, and
    says whether it did; it is called before the first one is compiled here.
    """
    global _current
    if _current is not None:
        yield _current
        return
    with ExitStack() as opened:
        _current = Compilation(progress, opened, prepare)
        try:
            yield _current
        finally:
            _current = None


def before_compiling() -> bool:
    """A kernel is not on disk: whether it may be by now, and is worth another look."""
    return _current is not None and _current.prepare()


def begin() -> None:
    """A kernel is being compiled."""
    if _current is not None:
        _current.start()


def end() -> None:
    """A kernel is compiled."""
    if _current is not None:
        _current.end()
