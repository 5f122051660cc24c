"""`modtok eval compare`: paired significance test of two systems."""

from pathlib import Path

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import emit_rows, parse_columns
from modtok_cli.evaluate.paired import compare

COLUMNS = parse_columns(
    "verdict, task, language=lang, metric, a=A:score, b=B:score, difference=B - A:score, "
    "low=from:score, high=to:score, p:ratio, n:int"
)


@command(
    "eval compare",
    compare,
    examples="""
    # two models on translation, and on text
    modtok eval compare runs/latest fr-en/ --tasks mt --pairs en-fr
    modtok eval compare runs/latest fr-en/ --text news.fr.txt
    # two files: the vocabulary of the pair and the full vocabulary
    modtok eval mt --pairs en-fr --examples lang.jsonl
    modtok eval mt --pairs en-fr --infer full --examples full.jsonl
    modtok eval compare lang.jsonl full.jsonl
    """,
)
def show(call: Call, json: Json = False) -> None:
    if any(Path(call.values[side]).is_dir() for side in ("first", "second")):
        require_models("lm_eval", "sacrebleu")
    title = f"A: {call.values['first']}, B: {call.values['second']}"
    emit_rows(call(), COLUMNS, title=title, json=json)
