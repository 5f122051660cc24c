"""What the study commands share: their options, and the command line that made a file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.output import Column, emit_tables
from modtok_cli.cli.plotting import emit_plot
from modtok_cli.cli.session import Session

Orders = Annotated[
    int,
    Option(
        "--orders",
        metavar="N",
        min=1,
        help="Language orders to learn in: the alphabetical one and shuffled ones.",
    ),
]
Seed = Annotated[int, Option("--seed", metavar="N", help="What shuffles and samples start from.")]

Row = Mapping[str, Any]


def command_line(session: Session) -> str:
    """The command as it was typed, to keep beside its rows.

    `--plot` and `--force` are left out: they change no row.
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


def place(output: Path | None, name: str) -> Path:
    """Where a study's rows go: -o, else studies/NAME.jsonl."""
    return output or Path("studies") / f"{name}.jsonl"


def emit_study(
    session: Session,
    kind: str,
    rows: Sequence[Row],
    tables: Sequence[tuple[str, Sequence[Row], Sequence[Column]]],
    *,
    plot: str | None,
    json: bool,
) -> None:
    """Rows for programs, a summary for people, and the picture where asked for."""
    emit_tables(rows, tables, json=json)
    emit_plot(session, plot, rows, kind)


def numbers(text: str, flag: str) -> list[int]:
    """The numbers of a comma-separated list.

    >>> numbers("8000,16000", "--budgets")
    [8000, 16000]

    Raises:
        UsageError: something in it is no number above 0.
    """
    found = []
    for part in text.split(","):
        if not part.strip().isdecimal() or int(part) == 0:
            raise UsageError(
                f"'{part.strip()}' is no number", where=flag, remedy=f"write {flag} 8000,16000"
            )
        found.append(int(part))
    return found
