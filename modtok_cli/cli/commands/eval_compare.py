"""`modtok eval compare`: two systems on the same examples → what their difference is worth."""

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
    Path, typer.Argument(metavar="A", help="What modtok eval --examples kept of one system.")
]
Second = Annotated[Path, typer.Argument(metavar="B", help="The same of another.")]


@command(
    "eval compare",
    examples="""
    # does the whole vocabulary translate otherwise than that of the pair?
    modtok eval mt --pairs en-fr --examples lang.jsonl
    modtok eval mt --pairs en-fr --infer full --examples full.jsonl
    modtok eval compare lang.jsonl full.jsonl
    """,
)
def eval_compare(session: Session, first: First, second: Second, json: Json = False) -> None:
    """Test two systems' difference by paired bootstrap.

    Both files must hold the same examples. Each metric is drawn 1,000 times on examples with
    replacement, the same for both systems; BLEU and chrF++ from their sums over sentences. The
    interval holds 95% of the differences, p is that of no difference. A task in several
    languages also gets a row for their mean.
    """
    from modtok_cli.evaluate.compare import compare

    rows = compare(first, second)
    emit_rows(rows, COLUMNS, title=f"A: {first}, B: {second}", json=json)
