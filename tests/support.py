"""What tests of several rooms use."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from numba import config

SAMPLE = Path(__file__).parents[1] / "examples" / "sample"
SHARED = Path(__file__).parents[2] / "shared"

needs_shared = pytest.mark.skipif(
    not (SHARED / "data").is_dir() or bool(config.DISABLE_JIT),
    reason="the shared test corpus is not beside the checkout, or far too long for plain Python",
)


def hear_ctrl_c() -> None:
    """For `preexec_fn`: a runner in the background of a shell ignores Ctrl-C, and so would we."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def alive_in_session(session: int) -> list[int]:
    """Processes that a process begun with `start_new_session` left, itself too; by Linux' /proc."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it went meanwhile
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found
