"""What the study commands print, and the command line that they record."""

import shlex
from collections.abc import Sequence
from typing import Any

from modtok_cli.cli.command import Call
from modtok_cli.cli.output import emit_tables
from modtok_cli.cli.plotting import emit_plot


def command_line(args: Sequence[str]) -> str:
    """The command line as typed, to store with the rows.

    Options that do not change the rows, such as `--plot` and `--force`, are omitted.
    """
    words: list[str] = []
    skip = False
    for word in args:
        if skip or word in ("--force", "--json", "-q", "-v", "--quiet", "--verbose"):
            skip = False
        elif word == "--plot":
            skip = True
        elif not word.startswith("--plot="):
            words.append(word)
    return shlex.join(["modtok", *words])


def emit_study(call: Call, kind: str, *, plot: str | None, json: bool, **others: Any) -> None:
    """Run a study; write its rows as JSON lines or as summary tables, and the plot if requested."""
    from modtok_cli.reports.kinds import kinds

    if "command" in call.declaration.declared:
        others["command"] = command_line(call.session.args)
    rows = call(**others)
    emit_tables(rows, kinds()[kind].summary(rows), json=json)
    emit_plot(call, plot, rows, kind)
