"""Child processes."""

from __future__ import annotations

import signal
import sys


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends for any reason.

    A busy child does not read the end of its input, and does not receive Ctrl-C when its
    parent is killed. Linux only; a no-op elsewhere.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
