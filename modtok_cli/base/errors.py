"""Errors that a user can act on: what is wrong, where, and what to do.

Packages raise `ModtokError` or a subclass; the command line prints it as one line and exits
with `exit_code`. Any other exception is a bug.
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
    """The command failed because of the user's data or machine (exit 1).

    >>> str(ModtokError("not UTF-8", where="fr.txt:3", remedy="pass --errors replace"))
    'fr.txt:3: not UTF-8; pass --errors replace'
    """

    exit_code: int = Exit.FAILED
    # What precedes the message on the command line.
    label = "error: "

    def __init__(self, what: str, *, where: str | None = None, remedy: str | None = None) -> None:
        self.what = what
        self.where = where
        self.remedy = remedy
        place = f"{where}: " if where else ""
        advice = f"; {remedy}" if remedy else ""
        super().__init__(f"{place}{what}{advice}")


class Stopped(ModtokError):
    """A signal stopped the work, and its state was saved (exit 128 + signal)."""

    label = ""

    def __init__(self, what: str, number: int, *, remedy: str) -> None:
        super().__init__(what, remedy=remedy)
        self.exit_code = 128 + number


class UsageError(ModtokError):
    """The command line is wrong (exit 2): an unknown language, an option out of range."""

    exit_code = Exit.USAGE
