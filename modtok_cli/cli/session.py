"""State of one run of the command line: verbosity, progress."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from modtok_cli.cli.progress import CommandProgress


@dataclass
class Session:
    """State shared by all commands.

    `args` are the words after `modtok`; `label` is the name of the command once it is known;
    `settings_error` is what is wrong with modtok.toml, for `doctor`; `resumes`: whether the same
    call goes on after Ctrl-C.
    """

    args: tuple[str, ...] = ()
    quiet: bool = False
    verbose: bool = False
    debug: bool = False
    label: str = "modtok"
    settings_error: str = ""
    resumes: bool = False

    @cached_property
    def progress(self) -> CommandProgress:
        """Progress bars if standard error is a terminal, else plain notes."""
        from modtok_cli.cli.progress import CommandProgress

        return CommandProgress(quiet=self.quiet, verbose=self.verbose)

    def say(self, text: str) -> None:
        """Print one line on standard error, unless --quiet."""
        self.progress.note(text)


def stdin_holds_data() -> bool:
    """Whether standard input is a pipe or a file, as in `modtok extract … | modtok nsl …`.

    False for a terminal, `/dev/null` and a closed standard input.
    """
    import os
    import stat

    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)
