"""`modtok latency`: time of forward passes and decoding, by tokenizer and model size."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli import completion
from modtok_cli.cli.command import command
from modtok_cli.cli.commands.memory import Scales
from modtok_cli.cli.inference_options import model_among, require_models
from modtok_cli.cli.options import Json, Lang, References, Tokenizers
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.session import Session
from modtok_cli.text.reading import Reading

COLUMNS = (
    Column("model", "model"),
    Column("language", "lang"),
    Column("tokenizer", "tokenizer"),
    Column("vocabulary", "vocabulary", "int"),
    Column("tokens", "tokens", "int"),
    Column("forward_seconds", "forward", "seconds"),
    Column("forward_ratio", "ratio", "ratio"),
    Column("token_seconds", "per token", "seconds"),
    Column("decode_ratio", "ratio", "ratio"),
)

Arguments = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL_OR_TEXT",
        autocompletion=completion.tokenizers,
        help="Run, slice or Hugging Face model to take size and tokenizer from; tokenizers (as in "
        "-t); texts (.txt, .jsonl, .parquet, .csv, .arrow, directory, or - for stdin), in any "
        "order.",
    ),
]
Lines = Annotated[
    int | None,
    typer.Option(
        "--lines", metavar="N", min=1, help="Number of documents per language; all by default."
    ),
]


@command(
    "latency",
    examples="""
    # full vocabulary and subtokenizers, relative to monolingual tokenizers
    modtok latency flores/fr.txt flores/fi.txt
    # model size and tokenizer of a run
    modtok latency runs/latest flores/fr.txt
    # an external tokenizer at two model sizes
    modtok latency gemma.json tokenizer@each --scale 0.5b --scale 1b fr.txt
    """,
)
def latency(
    session: Session,
    arguments: Arguments,
    tokenizer: Tokenizers = None,
    scale: Scales = None,
    references: References = None,
    lines: Lines = None,
    lang: Lang = None,
    reading: Reading = Reading(),
    json: Json = False,
) -> None:
    """Measure forward and decoding time by tokenizer.

    The whole text is packed into full contexts of 4,096 tokens; forward is the mean pass
    times the contexts that its tokens fill. Times are relative to those of the monolingual
    tokenizer of the language, with interleaved measurements. Weights are random.

    Defaults: the workspace's tokenizer/, whole and by language; model size tiny on a CPU
    and 0.5b on a GPU.
    """
    from modtok_cli.measure.check import split_arguments

    model, rest = model_among(arguments)
    named, texts = split_arguments(rest)
    if not texts:
        raise UsageError("no text given", remedy="as in: modtok latency MODEL fr.txt")
    tokenizers = [*named, *(tokenizer or [])]
    require_models()
    import torch

    from modtok_cli.inference.cost.latency import latency
    from modtok_cli.inference.cost.memory import choose_models, settings_of_run
    from modtok_cli.modular.directory import is_modular

    models, own = None, ["tokenizer", "tokenizer@each"]
    if model is not None:
        models, _, own = settings_of_run(model, named=bool(tokenizers))
        own = [own[0], f"{own[0]}@each"] if own and is_modular(Path(own[0])) else own
    if scale or models is None:
        models = choose_models(scale or ["0.5b" if torch.cuda.is_available() else "tiny"])
    rows = latency(
        tokenizers or own,
        ["-" if text == "-" else Path(text) for text in texts],
        models=models,
        references=references,
        language=lang,
        lines=lines,
        reading=reading,
        progress=session.progress,
    )
    emit_rows(rows, COLUMNS, title="Time relative to monolingual tokenizers", json=json)
