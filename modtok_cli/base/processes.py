"""Child processes."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

# Set by the process that starts ranks: a directory for their error messages.
MESSAGES = "MODTOK_RANK_MESSAGES"


def report_to_launcher(message: str) -> bool:
    """Leave a message for the process that started this rank; False if there is none.

    Ranks often fail together, for the same reason: the launcher prints it once.
    """
    directory = os.environ.get(MESSAGES)
    if directory is None:
        return False
    try:
        Path(directory, os.environ.get("RANK", "0")).write_text(message, encoding="utf-8")
    except OSError:  # the launcher is gone
        return False
    return True


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends for any reason.

    A busy child does not read the end of its input, and does not receive Ctrl-C when its
    parent is killed. Linux only; a no-op elsewhere.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
