"""Ctrl-C that cannot be lost.

Python raises KeyboardInterrupt wherever the main thread is. In a callback that C code calls (the
locks of imports, ctypes, destructors), the exception is printed or dropped, and the work goes on:
while libraries are loaded, that happened to about one Ctrl-C in 40. Here the signal is
recorded, and raised again until it arrives.
"""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_PERIOD = 0.2  # seconds after which a lost KeyboardInterrupt is raised again


class _State:
    pending = False


def install() -> None:
    """Handle SIGINT, unless the process ignores it or another handler is set."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return
    signal.signal(signal.SIGINT, _on_interrupt)
    signal.signal(signal.SIGALRM, _on_alarm)
    previous = sys.unraisablehook

    def hook(failure: Any) -> None:
        if _State.pending and issubclass(failure.exc_type, KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)  # raised once the callback has returned
        else:
            previous(failure)

    sys.unraisablehook = hook


@contextmanager
def deferred() -> Iterator[None]:
    """Handle Ctrl-C afterwards. Processes that start meanwhile do not receive it."""
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # of this thread
    # A thread of a library may receive the signal; its handler runs in the main thread.
    handler, came = signal.getsignal(signal.SIGINT), []
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and handler is not None:
        signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        if is_main and handler is not None:
            signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if came:
            signal.raise_signal(signal.SIGINT)


def acknowledge() -> bool:
    """Stop raising; whether there was a Ctrl-C. The handler of KeyboardInterrupt calls this."""
    was_pending, _State.pending = _State.pending, False
    if was_pending:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return was_pending


def _on_interrupt(number: int, frame: Any) -> None:
    _State.pending = True
    signal.setitimer(signal.ITIMER_REAL, _PERIOD)
    raise KeyboardInterrupt


def _on_alarm(number: int, frame: Any) -> None:
    if _State.pending:
        signal.setitimer(signal.ITIMER_REAL, _PERIOD)
        if not _is_in_flight():
            raise KeyboardInterrupt


def _is_in_flight() -> bool:
    """Whether a `finally`, `except` or `with` is at work on the KeyboardInterrupt right now."""
    error = sys.exc_info()[1]
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False
