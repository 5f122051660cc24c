"""Processes that a command leaves behind."""

from __future__ import annotations

from pathlib import Path


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
