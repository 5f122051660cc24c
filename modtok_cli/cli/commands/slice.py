"""`modtok slice`: the model of some languages, as a Hugging Face directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.inference_options import (
    LATEST,
    Dtype,
    In,
    Out,
    Run,
    RunTokenizer,
    Step,
    require_models,
    sides,
)
from modtok_cli.cli.options import Force, Json, Langs, Output, split_languages
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.session import Session

COLUMNS = (
    Column("part", "part"),
    Column("bytes", "slice", "bytes"),
    Column("full_bytes", "full model", "bytes"),
    Column("saved", "saved", "ratio"),
)

Append = Annotated[
    str | None,
    typer.Option(
        "--append", metavar="LANG,...", help="Add these languages to the slice given by --run."
    ),
]
Origin = Annotated[
    Path | None,
    typer.Option(
        "--from", metavar="DIR", help="With --append: the run of the slice, if it has moved."
    ),
]

Bos = Annotated[
    bool | None,
    typer.Option(
        "--bos/--no-bos",
        help="Tokenizer adds the end of text before every text, as in training; on by default.",
    ),
]
License = Annotated[
    str | None,
    typer.Option("--license", metavar="ID", help="License in the model card; unknown by default."),
]
BaseModel = Annotated[
    str | None,
    typer.Option(
        "--base-model", metavar="ID", help="Base model in the model card; the run by default."
    ),
]


@command(
    "slice",
    examples="""
    # French and English, for transformers, vLLM or lm-eval
    modtok slice --langs fr,en -o fr-en/
    # add Finnish, from the run of the slice
    modtok slice --run fr-en/ --append fi
    # full input vocabulary, French output vocabulary (modtok only)
    modtok slice --in full --out fr -o to-fr/
    """,
)
def slice(
    session: Session,
    run: Run = LATEST,
    langs: Langs = None,
    reading: In = None,
    writing: Out = None,
    append: Append = None,
    origin: Origin = None,
    output: Output = None,
    step: Step = None,
    dtype: Dtype = None,
    tokenizer: RunTokenizer = None,
    bos: Bos = None,
    license: License = None,
    base_model: BaseModel = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Extract the model of some languages from a run.

    The output is a standard Hugging Face Llama directory: backbone, embedding rows of these
    languages, and their tokenizer. Its logits equal those of the full model over this
    vocabulary.

    With different --in and --out, the output is in a format that only modtok generate and
    modtok eval read.
    """
    added = split_languages(append, "--append")
    inputs, outputs = sides(langs, reading, writing)
    if added is not None and (inputs is not None or outputs is not None):
        raise UsageError(
            "--append adds languages to both sides of a slice",
            remedy="omit --langs, --in and --out",
        )
    if added is None and inputs is None and outputs is None:
        raise UsageError("no languages given", remedy="as in: modtok slice --langs fr,en -o fr-en/")
    if added is None and output is None:
        raise UsageError(
            "no output directory given", remedy="as in: modtok slice --langs fr,en -o fr-en/"
        )
    require_models()
    from modtok_cli.inference.slice import slice_model

    report = slice_model(
        run,
        output=output or run,
        inputs=inputs,
        outputs=outputs if outputs is not None else inputs,
        add=added,
        run=origin,
        tokenizer=tokenizer,
        step=step,
        dtype=dtype,
        bos=bos,
        license=license,
        base_model=base_model,
        force=force,
        progress=session.progress,
    )
    facts = report.facts
    caption = f"{report.output}  (signature {facts.signature}, step {facts.step:,})"
    emit_rows(report.rows(), COLUMNS, title="Size of the weights", json=json, caption=caption)
