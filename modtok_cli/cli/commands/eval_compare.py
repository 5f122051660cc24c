"""`modtok eval compare`: paired significance test of two systems."""

from pathlib import Path

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import emit_tables, parse_columns
from modtok_cli.evaluate.compare import compare, summary

SCORES, RATIOS = (
    parse_columns(
        f"verdict, task, language=lang, metric, a=A:{kind}, b=B:{kind}, difference=B - A:{kind}, "
        f"low=from:{kind}, high=to:{kind}, p:ratio, p_holm=Holm:ratio, test, n:int"
    )
    for kind in ("score", "ratio")
)


@command(
    "eval compare",
    compare,
    examples="""
    # two models on translation, and on text
    modtok eval compare runs/latest fr-en/ --tasks mt --pairs en-fr
    modtok eval compare runs/latest fr-en/ news.fr.txt
    # two files: the vocabulary of the pair and the full vocabulary
    modtok eval mt --pairs en-fr --examples lang.jsonl
    modtok eval mt --pairs en-fr --infer full --examples full.jsonl
    modtok eval compare lang.jsonl full.jsonl
    """,
)
def show(call: Call, json: Json = False) -> None:
    if any(Path(call.values[side]).is_dir() for side in ("first", "second")):
        require_models("lm_eval", "sacrebleu")
    rows = call()
    title = f"{summary(rows)} (A: {call.values['first']}, B: {call.values['second']})"
    kinds = []
    for columns in (RATIOS, SCORES):
        some = [row for row in rows if (row["scale"] == 1) == (columns is RATIOS)]
        kinds += [(some, columns)] if some else []
    tables = [(title if at == 0 else "", some, of) for at, (some, of) in enumerate(kinds)]
    emit_tables(rows, tables, json=json)
