"""`modtok eval bpb`: bits per byte and per character of texts."""

from __future__ import annotations

from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.base.parameters import text_paths
from modtok_cli.cli.command import command
from modtok_cli.cli.evaluation_output import Infer, Limit, torch_dtype
from modtok_cli.cli.inference_options import (
    LATEST,
    Dtype,
    Gpus,
    RunTokenizer,
    Step,
    model_among,
    require_models,
)
from modtok_cli.cli.options import Json, Lang, Plot
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.plotting import check_plot, emit_plot
from modtok_cli.cli.session import Session
from modtok_cli.cli.several_processes import sharing
from modtok_cli.text.reading import Reading

COLUMNS = (
    Column("text", "text"),
    Column("language", "lang"),
    Column("infer", "infer"),
    Column("bits_per_byte", "bits/byte", "ratio"),
    Column("low", "from", "ratio"),
    Column("high", "to", "ratio"),
    Column("bits_per_character", "bits/character", "ratio"),
    Column("bits_per_token", "bits/token", "ratio"),
    Column("documents", "documents", "int"),
    Column("bytes", "bytes", "int"),
)
Arguments = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL_OR_TEXT",
        help="Run, slice or Hugging Face model (default: runs/latest), and texts (.txt, .jsonl, "
        ".parquet, .csv, .arrow, directory, or - for stdin), in any order.",
    ),
]
BatchSize = Annotated[
    int, typer.Option("--batch-size", metavar="N", min=1, help="Number of windows per batch.")
]


@command(
    "eval bpb",
    keeps=True,
    examples="""
    # the last run on held-out text, each language with its own subtokenizer
    modtok eval bpb flores/
    # predictions over the full vocabulary, and over English and French
    modtok eval bpb news.fr.txt --infer full
    modtok eval bpb news.fr.txt --infer en,fr
    # a slice, on at most 100 documents of each file
    modtok eval bpb fr-en/ fr.jsonl en.jsonl --limit 100
    # eight GPUs share the work
    modtok eval bpb flores/ --gpus 8
    # any Hugging Face model in safetensors
    modtok eval bpb model/ fr.txt
    """,
)
def eval_bpb(
    session: Session,
    arguments: Arguments,
    lang: Lang = None,
    infer: Infer = None,
    batch_size: BatchSize = 8,
    limit: Limit = None,
    gpus: Gpus = 1,
    reading: Reading = Reading(),
    step: Step = None,
    tokenizer: RunTokenizer = None,
    dtype: Dtype = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Measure bits per byte and per character of texts.

    Bits per byte do not depend on the vocabulary, so subtokenizers, inference modes and runs
    compare on the same text. A line of a text file is a document and is predicted from its
    start, as in training; a document longer than the context is predicted in windows.

    Texts in languages that the mode does not support are skipped with a warning. A Hugging Face
    model has no modes: it predicts over its vocabulary, after the token that begins a text, in
    windows of 2,048 tokens at most.
    """
    model, texts = model_among(arguments)
    if not texts:
        raise UsageError("no text given", remedy="as in: modtok eval bpb MODEL fr.txt")
    sources = text_paths(texts)
    check_plot(plot)
    require_models()
    from modtok_cli.evaluate.bits import BitsSettings, evaluate_bpb

    with sharing(session, gpus, reads_input="-" in sources) as processes:
        rows = evaluate_bpb(
            model or LATEST,
            sources,
            language=lang,
            settings=BitsSettings(infer=infer, batch_size=batch_size, limit=limit),
            reading=reading,
            tokenizer=tokenizer,
            step=step,
            dtype=torch_dtype(dtype),
            processes=processes,
            progress=processes.only_first(session.progress),
        )
    caption = str(rows[0]["signature"])
    emit_rows(rows, COLUMNS, title="Bits per byte", json=json, caption=caption)
    emit_plot(session, plot, rows, "bpb")
