"""`modtok eval compare`: paired significance test of two systems."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.cli.command import command
from modtok_cli.cli.options import Json
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.session import Session

COLUMNS = (
    Column("task", "task"),
    Column("language", "lang"),
    Column("metric", "metric"),
    Column("a", "A", "score"),
    Column("b", "B", "score"),
    Column("difference", "B - A", "score"),
    Column("low", "from", "score"),
    Column("high", "to", "score"),
    Column("p", "p", "ratio"),
    Column("n", "n", "int"),
)
First = Annotated[
    Path,
    typer.Argument(
        metavar="A", help="Examples of the first system, written by modtok eval --examples."
    ),
]
Second = Annotated[Path, typer.Argument(metavar="B", help="Examples of the second system.")]


@command(
    "eval compare",
    examples="""
    # compare the vocabulary of the pair with the full vocabulary
    modtok eval mt --pairs en-fr --examples lang.jsonl
    modtok eval mt --pairs en-fr --infer full --examples full.jsonl
    modtok eval compare lang.jsonl full.jsonl
    """,
)
def eval_compare(session: Session, first: First, second: Second, json: Json = False) -> None:
    """Compare two systems by paired bootstrap.

    Both files must have the same examples. Each metric is computed on 1,000 resamples of the
    examples, the same for both systems; BLEU and chrF++ from sentence statistics. Reports the
    95% interval of the difference and the p-value of no difference. A task in several
    languages also has a row for their mean.
    """
    from modtok_cli.evaluate.compare import compare

    rows = compare(first, second)
    emit_rows(rows, COLUMNS, title=f"A: {first}, B: {second}", json=json)
