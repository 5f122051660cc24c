"""`modtok unigram-merge`: a modular tokenizer of monolingual Unigram models."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Budget,
    Data,
    Errors,
    Force,
    Json,
    Langs,
    NoReferences,
    Output,
    Special,
    Threads,
    split_languages,
)
from modtok_cli.cli.report import emit_report
from modtok_cli.cli.session import Session

Models = Annotated[
    Path | None,
    typer.Option(
        "--models",
        metavar="DIR",
        help="Take the models there, LANG.json or SentencePiece's LANG.model; by default those "
        "of unigram/ that fit the text, and learn the others.",
    ),
]
Init = Annotated[
    Literal["uniform", "mean"],
    typer.Option("--init", help="Where EM starts: all pieces alike, or the models' mean."),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="LANG=X,...",
        help="How much a language's text counts, such as fr=2,en=0.5; equal: all the same.",
    ),
]
Tolerance = Annotated[
    float,
    typer.Option(
        "--tolerance",
        metavar="X",
        min=0,
        help="EM ends when the log-likelihood changes by less than this part of itself.",
    ),
]
Iterations = Annotated[
    int,
    typer.Option(
        "--iterations",
        metavar="N",
        min=0,
        help="EM ends after so many at the latest; 0 with --init mean: no EM.",
    ),
]


@command(
    "unigram-merge",
    examples="""
    # three languages from data/, into tokenizer/
    modtok unigram-merge --langs en,fi,fr -k 24000
    # models that SentencePiece trained elsewhere, as models/en.model
    modtok unigram-merge --langs en,fi --models models
    # no EM: the mean of the models' probabilities
    modtok unigram-merge --init mean --iterations 0
    # every language counts the same, however much text it has
    modtok unigram-merge --weights equal
    """,
)
def unigram_merge(
    session: Session,
    langs: Langs = None,
    k: Budget = 24000,
    models: Models = None,
    init: Init = "uniform",
    weights: Weights = None,
    tolerance: Tolerance = 1e-6,
    iterations: Iterations = 100,
    no_references: NoReferences = False,
    special: Special = None,
    data: Data = Path("data"),
    output: Output = Path("tokenizer"),
    errors: Errors = "strict",
    threads: Threads = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Unite monolingual Unigram models in a modular tokenizer.

    Each language has its own k pieces; what several have is there once. Their
    probabilities are estimated anew by expectation-maximization over all the text, so that
    any set of languages can be taken out later. Without --langs, every language in data/.
    """
    languages = split_languages(langs)
    from modtok_cli.construct.unigram_merge import unigram_merge

    report = unigram_merge(
        languages,
        data=data,
        output=output or Path("tokenizer"),
        k=k,
        models=models,
        init=init,
        weights=weights,
        tolerance=tolerance,
        iterations=iterations,
        references=not no_references,
        specials=tuple(special or ()),
        errors=errors,
        threads=threads,
        force=force,
        progress=session.progress,
    )
    emit_report(report, title="Merged Unigram", json=json)
