"""`modtok eval bpb`: bits per byte and per character of texts."""

from pathlib import Path
from typing import Annotated

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import PATHS
from modtok_cli.cli.command import Call, Json, Plot, command
from modtok_cli.cli.evaluation_output import Examples, shared_work, writing_examples
from modtok_cli.cli.output import emit_rows, parse_columns
from modtok_cli.cli.plotting import emit_plot
from modtok_cli.evaluate.evaluate import evaluate_bpb
from modtok_cli.model.kinds import model_kind
from modtok_cli.model.parameters import Gpus

COLUMNS = parse_columns(
    "run, text, language=lang, infer, bits_per_byte=bits/byte:ratio, low=from:ratio, "
    "high=to:ratio, bits_per_character=bits/character:ratio, bits_per_token=bits/token:ratio, "
    "documents:int, bytes:int"
)
Arguments = Annotated[
    list[str],
    Option(
        "Runs, slices or Hugging Face models (default: runs/latest), and texts (.txt, .jsonl, "
        ".parquet, .csv, .arrow, directory, or - for stdin), in any order.",
        argument=True,
        metavar="MODEL_OR_TEXT",
        hub="model",
        accepts=PATHS,
    ),
]


@command(
    "eval bpb",
    evaluate_bpb,
    keeps=True,
    examples="""
    # the last run on held-out text, each language with its own subtokenizer
    modtok eval bpb flores/
    # predictions over the full vocabulary, and over English and French
    modtok eval bpb news.fr.txt --infer full --infer en,fr
    # some languages of a directory, with one row per document
    modtok eval bpb flores/ --langs fr,fi --examples documents.jsonl
    # a slice, on at most 100 documents of each file
    modtok eval bpb fr-en/ fr.jsonl en.jsonl --limit 100
    # eight GPUs share the work
    modtok eval bpb flores/ --gpus 8
    # any Hugging Face model in safetensors
    modtok eval bpb model/ fr.txt
    """,
)
def show(
    call: Call,
    arguments: Arguments,
    gpus: Gpus = 1,
    examples: Examples = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    models = [name for name in arguments if model_kind(Path(name))]
    texts = [name for name in arguments if name not in models]
    if not texts:
        raise UsageError("no text given", remedy="as in: modtok eval bpb MODEL fr.txt")
    with shared_work(call, gpus, examples, reads_input="-" in texts) as shared:
        found = call(models=models, texts=texts, **shared)
    rows = found.rows
    with writing_examples(examples, found.examples):
        caption = str(rows[0]["signature"])
        emit_rows(rows, COLUMNS, title="Bits per byte", json=json, caption=caption)
    emit_plot(call.say, plot, rows, "bpb")
    found.require_complete()
    shared["kept"].close()
