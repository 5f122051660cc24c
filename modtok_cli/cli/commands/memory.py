"""`modtok memory`: parameters and KV cache, by tokenizer and model size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.cli import completion
from modtok_cli.cli.command import command
from modtok_cli.cli.inference_options import model_among
from modtok_cli.cli.options import Json, Lang, Tokenizers
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.session import Session
from modtok_cli.text.reading import Reading

COLUMNS = (
    Column("model", "model"),
    Column("tokenizer", "tokenizer"),
    Column("vocabulary", "vocabulary", "int"),
    Column("parameters", "parameters", "int"),
    Column("share", "vocabulary share", "ratio"),
    Column("saved", "saved", "ratio"),
    Column("kv_bytes_per_token", "KV/token", "bytes"),
)
TEXT_COLUMNS = (
    Column("language", "lang"),
    Column("tokens_per_character", "/char", "ratio"),
    Column("kv_bytes_per_character", "KV/char", "bytes"),
    Column("kv_saved", "KV saved", "ratio"),
)

Scales = Annotated[
    list[str] | None,
    typer.Option(
        "--scale",
        metavar="NAME",
        autocompletion=completion.presets,
        help="Model size: tiny, small, 0.5b, 1b, 2.5b, 7b, 12b, 30b. Repeatable.",
    ),
]
Arguments = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL_OR_TEXT",
        autocompletion=completion.tokenizers,
        help="Run, slice or Hugging Face model to take size, tokenizer and languages from; "
        "tokenizers (as in -t); texts (.txt, .jsonl, .parquet, .csv, .arrow, directory, or - for "
        "stdin), in any order.",
    ),
]
Tied = Annotated[bool, typer.Option("--tied", help="Tie input and output embeddings.")]


@command(
    "memory",
    examples="""
    # the table of the paper: 24,000 tokens instead of 256,000
    modtok memory
    # a run: full vocabulary, then each language
    modtok memory runs/latest
    # tokenizers relative to the first, with the cache size of a text
    modtok memory gemma.json tokenizer@each --scale 2.5b flores/
    """,
)
def memory(
    session: Session,
    arguments: Arguments = None,
    tokenizer: Tokenizers = None,
    scale: Scales = None,
    tied: Tied = False,
    lang: Lang = None,
    reading: Reading = Reading(),
    json: Json = False,
) -> None:
    """Compute parameters and KV cache size by tokenizer.

    "saved" is the share of parameters saved relative to the first tokenizer. By default, the
    vocabulary sizes of the paper are compared: 256,000 and 24,000 tokens. With TEXT, the KV
    cache is also reported per character.
    """
    from modtok_cli.inference.cost.memory import footprint
    from modtok_cli.measure.check import split_arguments

    model, rest = model_among(arguments or [])
    tokenizers, texts = split_arguments(rest)
    rows = footprint(
        [*tokenizers, *(tokenizer or [])],
        [text if text == "-" else Path(text) for text in texts],
        scales=scale,
        run=model,
        tied=tied,
        language=lang,
        reading=reading,
        progress=session.progress,
    )
    columns = COLUMNS + (TEXT_COLUMNS if texts else ())
    emit_rows(rows, columns, title="Parameters and KV cache (bfloat16)", json=json)
