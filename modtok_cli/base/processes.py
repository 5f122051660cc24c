"""Processes of ours that do a part of the work."""

from __future__ import annotations

import signal
import sys


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the one that started it ends, however it ends.

    A child in the middle of hours of work reads no end of input, and Ctrl-C does not reach
    it when its parent is killed. Linux only; elsewhere nothing happens.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
