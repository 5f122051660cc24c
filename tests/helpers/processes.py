"""Processes that tests start."""

from __future__ import annotations

import signal


def hear_ctrl_c() -> None:
    """For `preexec_fn`: a shell's background jobs ignore Ctrl-C, and pass that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
