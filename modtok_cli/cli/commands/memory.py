"""`modtok memory`: what each tokenizer costs in parameters and cache."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.cli.command import command
from modtok_cli.cli.options import Errors, Json, Lang, OptionalTexts, Tokenizers
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.session import Session

COLUMNS = (
    Column("model", "model"),
    Column("tokenizer", "tokenizer"),
    Column("vocabulary", "vocabulary", "int"),
    Column("parameters", "parameters", "int"),
    Column("share", "vocabulary's", "ratio"),
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
        help="Model size: tiny, small, 0.5b, 1b, 2.5b, 7b, 12b, 30b. May be given several times.",
    ),
]
OptionalRun = Annotated[
    Path | None,
    typer.Option(
        "--run", metavar="DIR", help="Run to take model size, tokenizer and languages from."
    ),
]
Tied = Annotated[bool, typer.Option("--tied", help="One table for input and output.")]


@command(
    "memory",
    examples="""
    # the paper's table: 24,000 tokens in place of 256,000
    modtok memory
    # one's own run: the whole vocabulary, then each language's
    modtok memory --run runs/latest
    # tokenizers against the first, with the cache that a text takes
    modtok memory -t gemma.json -t tokenizer@each --scale 2.5b flores/
    """,
)
def memory(
    session: Session,
    texts: OptionalTexts = None,
    tokenizer: Tokenizers = None,
    scale: Scales = None,
    run: OptionalRun = None,
    tied: Tied = False,
    lang: Lang = None,
    errors: Errors = "strict",
    json: Json = False,
) -> None:
    """Count parameters and cache by tokenizer.

    "Saved" is the share of all parameters that a tokenizer does without, against the
    first one named; by default the paper's 256,000 and 24,000 tokens. With TEXT, the
    cache is also given a character, since a shorter text fills less of it.
    """
    from modtok_cli.inference.footprint import footprint

    rows = footprint(
        tokenizer or [],
        [text if text == "-" else Path(text) for text in texts or []],
        scales=scale,
        run=run,
        tied=tied,
        language=lang,
        errors=errors,
        progress=session.progress,
    )
    columns = COLUMNS + (TEXT_COLUMNS if texts else ())
    emit_rows(rows, columns, title="Parameters and KV cache (bfloat16)", json=json)
