"""State of one run of the command line: verbosity, progress, rows that are kept."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modtok_cli.base.errors import ModtokError

if TYPE_CHECKING:
    from modtok_cli.cli.progress_bar import CommandProgress

_RESULTS = Path("results")
_WORKSPACE = (Path("tokenizer"), Path("data"), Path("modtok.toml"))


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
        from modtok_cli.cli.progress_bar import CommandProgress

        return CommandProgress(quiet=self.quiet, verbose=self.verbose)

    def say(self, text: str) -> None:
        """Print one line on standard error, unless --quiet."""
        self.progress.note(text)

    @property
    def results(self) -> Path | None:
        """`results/` of this directory, if it is a workspace where rows are kept."""
        is_workspace = any(path.exists() for path in _WORKSPACE)
        return _RESULTS if is_workspace and not _is_redirected() else None

    @property
    def unfinished(self) -> str:
        """Name of a file of `results/` for rows of this very command that are not all there yet."""
        from modtok_cli.base.signature import digest

        return f"{self._name}-unfinished-{digest(*map(os.fsencode, self.args), length=8)}.jsonl"

    @property
    def _name(self) -> str:
        return self.label.removeprefix("modtok ").replace(" ", "-")

    def keep(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write rows to `results/COMMAND-HASH.jsonl`, if this directory is a workspace.

        `modtok report` finds them there. The same measurement, by the signatures of its rows,
        replaces what it left before. A shell that writes standard output to a file of `results/`
        keeps it there. Failures are warnings.
        """
        from modtok_cli.base.files import write_bytes
        from modtok_cli.base.signature import digest
        from modtok_cli.cli.output import json_line

        place = self.results
        if not rows or place is None:
            return
        parts = (str(row.get("signature")).encode() for row in rows)
        path = place / f"{self._name}-{digest(*parts, length=8)}.jsonl"
        try:
            write_bytes(path, b"".join(map(json_line, rows)))
        except ModtokError as error:
            self.progress.warn(f"the rows are not kept: {error}")
            return
        self.say(f"kept in {path} for modtok report (--no-keep)")


def _is_redirected() -> bool:
    """Return whether standard output is a file in `results/`."""
    try:
        own = os.fstat(sys.stdout.fileno())
        return any(os.path.samestat(own, file.stat()) for file in _RESULTS.iterdir())
    except (AttributeError, OSError, ValueError):
        return False


def stdin_holds_data() -> bool:
    """Return whether standard input is a pipe or a file, as in `modtok extract … | modtok nsl …`.

    False for a terminal, `/dev/null` and a closed standard input.
    """
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)
