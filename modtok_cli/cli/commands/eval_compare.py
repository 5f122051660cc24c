"""`modtok eval compare`: paired significance test of two systems."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.evaluate.evaluate import compare

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


@command(
    "eval compare",
    compare,
    examples="""
    # compare the vocabulary of the pair with the full vocabulary
    modtok eval mt --pairs en-fr --examples lang.jsonl
    modtok eval mt --pairs en-fr --infer full --examples full.jsonl
    modtok eval compare lang.jsonl full.jsonl
    """,
)
def show(call: Call, json: Json = False) -> None:
    title = f"A: {call.values['first']}, B: {call.values['second']}"
    emit_rows(call(), COLUMNS, title=title, json=json)
