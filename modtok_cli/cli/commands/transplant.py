"""`modtok transplant`: a Hugging Face model with another vocabulary."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.options import Force, Json, Output
from modtok_cli.cli.output import Column
from modtok_cli.cli.report_output import Report, emit_with_report, load_report
from modtok_cli.cli.session import Session
from modtok_cli.text.reading import Reading

COLUMNS = (
    Column("part", "part"),
    Column("bytes", "new", "bytes"),
    Column("full_bytes", "before", "bytes"),
    Column("saved", "saved", "ratio"),
)

Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="Hugging Face directory with safetensors and tokenizer."),
]
NewTokenizer = Annotated[
    str,
    typer.Option(
        "-t", "--tokenizer", metavar="TOKENIZER", help="New vocabulary: DIR, DIR@fr,en, or a file."
    ),
]
Fit = Annotated[
    list[str] | None,
    typer.Option(
        "--fit",
        metavar="TEXT",
        help="Fit output rows to this text, without training; the model must fit in memory. "
        "Repeatable.",
    ),
]
Untie = Annotated[
    bool,
    typer.Option("--untie", help="With --fit: give a model with tied tables separate output rows."),
]


@command(
    "transplant",
    examples="""
    # a model with the vocabulary of French and English
    modtok transplant model/ -t tokenizer@fr,en -o model-fr-en/
    # better rows, fitted to text of these languages
    modtok transplant model/ -t tokenizer@fr,en -o new/ --fit fr.txt --fit en.txt
    # tokens and bits per byte of a text, before and after
    modtok transplant model/ -t tokenizer@fr,en -o new/ --report fr.txt
    """,
)
def transplant(
    session: Session,
    model: Model,
    tokenizer: NewTokenizer = "tokenizer",
    output: Output = None,
    fit: Fit = None,
    untie: Untie = False,
    report: Report = None,
    reading: Reading = Reading(),
    force: Force = False,
    json: Json = False,
) -> None:
    """Give a Hugging Face model another vocabulary.

    Embedding rows of tokens that the model has too are copied. Any other row is the mean of the
    rows of the tokens that spell it. With --fit, the logit of each token is lowered by how much
    rarer it is in the text than the token of the model that it begins with. Special tokens that
    the model's files name are kept, with new ids. The result needs some training: see modtok
    pretrain --init-from.
    """
    if output is None:
        raise UsageError(
            "no output directory given",
            remedy="as in: modtok transplant model/ -t tokenizer@fr,en -o model-fr-en/",
        )
    if untie and not fit:
        raise UsageError("--untie needs --fit", remedy="name text, as in: --fit fr.txt")
    require_models()
    from modtok_cli.inference.hf.fit_outputs import FitText
    from modtok_cli.inference.hf.transplant import transplant as run

    texts = load_report(session, report, reading)
    made = run(
        model,
        tokenizer,
        output=output,
        fit=FitText(fit, reading, untie) if fit else None,
        force=force,
        progress=session.progress,
    )
    tokens = made.tokens
    caption = (
        f"{made.output}: {tokens['identical']:,} rows copied, {tokens['spelled']:,} spelled, "
        f"{tokens['special']} special tokens kept (signature {made.signature})"
    )
    emit_with_report(
        session,
        made.rows(),
        COLUMNS,
        texts,
        model,
        made.output,
        title="Size of the weights",
        caption=caption,
        json=json,
    )
