"""`modtok eval compare`: paired significance test of two systems."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import emit_rows, parse_columns
from modtok_cli.evaluate.evaluate import compare

COLUMNS = parse_columns(
    "task, language=lang, metric, a=A:score, b=B:score, difference=B - A:score, low=from:score, "
    "high=to:score, p:ratio, n:int"
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
