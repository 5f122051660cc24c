"""Processes that tests start."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any


def python(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """`python WORDS…` with imports of its own: what it printed, and its exit status."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=600, check=False, **options
    )


def hear_ctrl_c() -> None:
    """For `preexec_fn`: a shell's background jobs ignore Ctrl-C, and pass that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def alive_in_session(session: int) -> list[int]:
    """Living processes of a session, its leader included (Linux, by /proc)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # the process ended meanwhile
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(entry.name))
    return found
