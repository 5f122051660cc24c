"""Errors that a user can act on: what is wrong, where, and what to do.

Packages raise `ModtokError` or a subclass; the command line prints it as one line and exits
with `exit_code`. Any other exception is a bug.
"""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from enum import IntEnum
from os import PathLike

# Whether a command runs: errors name its flags, errors of a Python call name parameters.
IN_COMMAND: ContextVar[bool] = ContextVar("IN_COMMAND", default=False)

Place = str | PathLike[str] | None

# `-k/--budget`: the flags of one option, or one of them; `--set model.layers`.
_FLAGS = re.compile(r"(?<![\w./-])(--set [a-z]+\.\w+|--?[a-z][\w-]*(/--?[a-z][\w-]*)*)(?![\w./])")


def _names(flags: str, names: Mapping[str, str]) -> str:
    options = [names.get(flag, flag) for flag in flags.split("/")]
    return "/".join(dict.fromkeys(options))


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
        """Replace flags by `names` of parameters; a remedy that is a command line stays.

        >>> error = UsageError("--langs repeats 'fi'", where="-k/--budget")
        >>> error.rename({"--langs": "languages", "-k": "k", "--budget": "k"})
        >>> str(error)
        "k: languages repeats 'fi'"
        """

        def renamed(text: str | None) -> str | None:
            if not text or "modtok " in text:
                return text
            return _FLAGS.sub(lambda flags: _names(flags[0], names), text)

        self.what = renamed(self.what) or ""
        self.where, self.remedy = renamed(self.where), renamed(self.remedy)
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


def missing(where: Place, remedy: str = "check the name") -> UsageError:
    """The error for a file or a directory that is named and is not there."""
    return UsageError("does not exist", where=where, remedy=remedy)
