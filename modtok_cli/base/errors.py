"""Errors that a user can act on: what is wrong, where, and what to do.

A room raises `ModtokError` (or a subclass); the command line prints it as one line and
exits with `exit_code`. Anything else that escapes is a defect of ours.
"""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """Exit status of every command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    INTERRUPTED = 130


class ModtokError(Exception):
    """The work failed, for a reason that lies in the user's data or machine (exit 1).

    >>> str(ModtokError("not UTF-8", where="fr.txt:3", remedy="pass --errors replace"))
    'fr.txt:3: not UTF-8; pass --errors replace'
    """

    exit_code = Exit.FAILED

    def __init__(self, what: str, *, where: str | None = None, remedy: str | None = None) -> None:
        self.what = what
        self.where = where
        self.remedy = remedy
        place = f"{where}: " if where else ""
        advice = f"; {remedy}" if remedy else ""
        super().__init__(f"{place}{what}{advice}")


class UsageError(ModtokError):
    """The command was called wrongly (exit 2): an unknown language, an option out of range."""

    exit_code = Exit.USAGE
