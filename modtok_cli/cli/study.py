"""Shared by the study commands: options, output file, recorded command line."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.output import emit_tables
from modtok_cli.cli.plotting import emit_plot
from modtok_cli.cli.session import Session

Orders = Annotated[
    int,
    Option(
        "--orders",
        metavar="N",
        min=1,
        help="Number of language orders: the alphabetical one and random ones.",
    ),
]
Seed = Annotated[int, Option("--seed", metavar="N", help="Seed of random orders and samples.")]

Row = Mapping[str, Any]


def command_line(session: Session) -> str:
    """The command line as typed, to store with the rows.

    Options that do not change the rows, such as `--plot` and `--force`, are omitted.
    """
    words: list[str] = []
    skip = False
    for word in session.args:
        if skip or word in ("--force", "--json", "-q", "-v", "--quiet", "--verbose"):
            skip = False
        elif word == "--plot":
            skip = True
        elif not word.startswith("--plot="):
            words.append(word)
    return shlex.join(["modtok", *words])


def study_output(output: Path | None, name: str) -> Path:
    """Output file of a study: -o, else studies/NAME.jsonl."""
    return output or Path("studies") / f"{name}.jsonl"


def emit_study(
    session: Session, kind: str, rows: Sequence[Row], *, plot: str | None, json: bool
) -> None:
    """Write the rows as JSON lines or as summary tables, and the plot if requested."""
    from modtok_cli.reports.kinds import kinds

    emit_tables(rows, kinds()[kind].summary(rows), json=json)
    emit_plot(session, plot, rows, kind)


def parse_numbers(text: str, flag: str) -> list[int]:
    """Positive integers of a comma-separated list.

    >>> parse_numbers("8000,16000", "--budgets")
    [8000, 16000]

    Raises:
        UsageError: an entry is not a positive integer.
    """
    found = []
    for part in text.split(","):
        if not part.strip().isdecimal() or int(part) == 0:
            raise UsageError(
                f"'{part.strip()}' is not a positive integer",
                where=flag,
                remedy=f"as in: {flag} 8000,16000",
            )
        found.append(int(part))
    return found
