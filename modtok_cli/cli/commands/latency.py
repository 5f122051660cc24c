"""`modtok latency`: time of reading and writing, by tokenizer and scale."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.cli.command import command
from modtok_cli.cli.commands.memory import OptionalRun, Scales
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.options import Errors, Json, Lang, References, Texts, Tokenizers
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.session import Session

COLUMNS = (
    Column("model", "model"),
    Column("language", "lang"),
    Column("tokenizer", "tokenizer"),
    Column("vocabulary", "vocabulary", "int"),
    Column("tokens", "tokens", "int"),
    Column("forward_seconds", "forward", "seconds"),
    Column("forward_ratio", "ratio", "ratio"),
    Column("token_seconds", "a token", "seconds"),
    Column("decode_ratio", "ratio", "ratio"),
)

Lines = Annotated[
    int, typer.Option("--lines", metavar="N", min=1, help="Documents of each text to read.")
]


@command(
    "latency",
    examples="""
    # the whole vocabulary and each language's own, against monolingual tokenizers
    modtok latency flores/fr.txt flores/fi.txt
    # the size and the tokenizer of a run
    modtok latency --run runs/latest flores/fr.txt
    # another model's tokenizer at two sizes
    modtok latency -t gemma.json -t tokenizer@each --scale 0.5b --scale 1b fr.txt
    """,
)
def latency(
    session: Session,
    texts: Texts,
    tokenizer: Tokenizers = None,
    scale: Scales = None,
    run: OptionalRun = None,
    references: References = None,
    lines: Lines = 32,
    lang: Lang = None,
    errors: Errors = "strict",
    json: Json = False,
) -> None:
    """Time reading and writing by tokenizer.

    Forward passes and decoding, on the same text, the tokenizers taking turns.

    Times are divided by those of the language's own monolingual tokenizer. Weights are
    random, which costs no other time. Without -t the workspace's tokenizer/ is taken
    whole and by language; without --scale or
    --run, tiny on a CPU and 0.5b on a GPU.
    """
    require_models()
    import torch

    from modtok_cli.inference.footprint import settings_of_run
    from modtok_cli.inference.latency import latency
    from modtok_cli.inference.memory import choose_models

    directory = "tokenizer"
    models = None
    if run is not None:
        models, _, own = settings_of_run(run, named=bool(tokenizer))
        directory = own[0] if own else directory
    if scale or models is None:
        models = choose_models(scale or ["0.5b" if torch.cuda.is_available() else "tiny"])
    rows = latency(
        tokenizer or [directory, f"{directory}@each"],
        ["-" if text == "-" else Path(text) for text in texts],
        models=models,
        references=references,
        language=lang,
        lines=lines,
        errors=errors,
        progress=session.progress,
    )
    emit_rows(rows, COLUMNS, title="Time, against monolingual tokenizers", json=json)
