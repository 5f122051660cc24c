"""`modtok transplant`: a Hugging Face model with another vocabulary."""

from pathlib import Path

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import parse_columns
from modtok_cli.cli.report_output import Report, emit_with_report, load_report
from modtok_cli.model.hf.transplant import transplant

COLUMNS = parse_columns("part, bytes=new:bytes, full_bytes=before:bytes, saved:ratio")


@command(
    "transplant",
    transplant,
    examples="""
    # a model with the vocabulary of French and English
    modtok transplant model/ -t tokenizer@fr,en -o model-fr-en/
    # better output rows, fitted to text of these languages
    modtok transplant model/ -t tokenizer@fr,en -o new/ --fit fr.txt --fit en.txt
    # better rows of new tokens, distilled from the model itself
    modtok transplant model/ -t grown -o new/ --distill fi.jsonl --steps 100
    # tokens and bits per byte of a text, before and after
    modtok transplant model/ -t tokenizer@fr,en -o new/ --report fr.txt
    """,
)
def show(call: Call, report: Report = None, json: Json = False) -> None:
    require_models()
    texts = load_report(call, report, call.group("reading"))
    new = call()
    tokens = new.tokens
    caption = (
        f"{new.output}: {tokens['identical']:,} rows copied, {tokens['spelled']:,} spelled, "
        f"{tokens['special']} special tokens kept (signature {new.signature})"
    )
    emit_with_report(
        call,
        new.rows(),
        COLUMNS,
        texts,
        Path(call.value("model")),
        new.output,
        caption=caption,
        json=json,
    )
