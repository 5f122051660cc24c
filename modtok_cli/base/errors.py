"""Errors that a user can act on: what is wrong, where, and what to do.

Packages raise `ModtokError` or a subclass; the command line prints it as one line and exits
with `exit_code`. Any other exception is a bug.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from enum import IntEnum
from os import PathLike
from pathlib import Path

# Whether a command runs: errors name its flags, errors of a Python call name parameters.
IN_COMMAND: ContextVar[bool] = ContextVar("IN_COMMAND", default=False)

Place = str | PathLike[str] | None

# `-k/--budget`: the flags of one option, or one of them; `--set model.layers`.
_FLAGS = re.compile(r"(?<![\w./-])(--set [a-z]+\.\w+|--?[a-z][\w-]*(/--?[a-z][\w-]*)*)(?![\w./])")


def renamed(text: str, names: Mapping[str, str]) -> str:
    """A message with `names` in place of flags; a command line stays.

    >>> renamed("omit --budget", {"-k": "k", "--budget": "k"})
    'omit k'
    """

    def name_of(flags: re.Match[str]) -> str:
        options = [names.get(flag, flag) for flag in flags[0].split("/")]
        return "/".join(dict.fromkeys(options))

    return text if "modtok " in text else _FLAGS.sub(name_of, text)


class Exit(IntEnum):
    """Exit status of every command."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNFINISHED = 75
    INTERRUPTED = 130


class ModtokError(Exception):
    """The command failed because of the user's data or machine (exit 1).

    >>> str(ModtokError("not UTF-8", where="fr.txt:3", remedy="pass --errors replace"))
    'fr.txt:3: not UTF-8; pass --errors replace'
    """

    exit_code: int = Exit.FAILED
    # What precedes the message on the command line.
    label = "error: "

    def __init__(self, what: str, *, where: Place = None, remedy: str | None = None) -> None:
        self.what = what
        self.where = None if where is None else str(where)
        self.remedy = remedy
        super().__init__(self._line())

    def _line(self) -> str:
        place = f"{self.where}: " if self.where else ""
        return f"{place}{self.what}{f'; {self.remedy}' if self.remedy else ''}"

    def rename(self, names: Mapping[str, str]) -> None:
        """Replace flags by `names`: of parameters, or what was typed (`renamed`).

        >>> error = UsageError("--langs repeats 'fi'", where="-k/--budget")
        >>> error.rename({"--langs": "languages", "-k": "k", "--budget": "k"})
        >>> str(error)
        "k: languages repeats 'fi'"
        """

        self.what = renamed(self.what, names)
        self.where = self.where and renamed(self.where, names)
        self.remedy = self.remedy and renamed(self.remedy, names)
        self.args = (self._line(),)


class Stopped(ModtokError):
    """A signal stopped the work, and its state was saved (exit 128 + signal)."""

    label = ""

    def __init__(self, what: str, number: int, *, remedy: str) -> None:
        super().__init__(what, remedy=remedy)
        self.exit_code = 128 + number


class Unfinished(ModtokError):
    """Jobs on a cluster still run; the same call continues (exit 75)."""

    exit_code = Exit.UNFINISHED
    label = ""


class UsageError(ModtokError):
    """The command line is wrong (exit 2): an unknown language, an option out of range."""

    exit_code = Exit.USAGE


def missing(
    where: Place, remedy: str = "check the name", what: str = "is a file, not a directory"
) -> UsageError:
    """The error for a file or a directory that is named and is not there.

    `what`: what is wrong with another thing that is there.
    """
    is_there = False
    with suppress(OSError, ValueError):  # a name that no file may have
        is_there = where is not None and Path(where).exists()
    return UsageError(what if is_there else "does not exist", where=where, remedy=remedy)
