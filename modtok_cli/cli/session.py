"""What one run of the command line knows about itself: how much to say, and to whom."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from modtok_cli.cli.progress import CommandProgress

Value = TypeVar("Value")


@dataclass
class Session:
    """Settings of one run that every command shares.

    `args` are the words after `modtok`; `label` names the command once it is known, `told`
    the parameters that stand on the command line.
    """

    args: tuple[str, ...] = ()
    quiet: bool = False
    verbose: bool = False
    debug: bool = False
    label: str = "modtok"
    told: frozenset[str] = frozenset()
    settings_file: str = field(default="modtok.toml")

    @cached_property
    def progress(self) -> CommandProgress:
        """Bars when standard error is a terminal, else plain notes."""
        from modtok_cli.cli.progress import CommandProgress

        return CommandProgress(quiet=self.quiet, verbose=self.verbose)

    def if_told(self, name: str, value: Value) -> Value | None:
        """`value` if parameter `name` stands on the command line, else None.

        What modtok.toml and the environment say are defaults for what is made new: where
        something is there and its own settings hold, only the command line can disagree.
        """
        return value if name in self.told else None

    def say(self, text: str) -> None:
        """Say one line on standard error, unless --quiet."""
        self.progress.note(text)


def stdin_holds_data() -> bool:
    """Whether standard input is a pipe or a file, as in `modtok extract … | modtok nsl …`.

    A terminal, `/dev/null` and a closed standard input hold nothing to read.
    """
    import os
    import stat

    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)
