"""`modtok unigram-merge`: modular tokenizer from monolingual Unigram models."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Budget,
    Data,
    Force,
    Json,
    Langs,
    NoDefaultSpecials,
    NoReferences,
    Output,
    Special,
    Threads,
    split_languages,
)
from modtok_cli.cli.report import emit_report
from modtok_cli.cli.session import Session
from modtok_cli.text.reading import Reading

Models = Annotated[
    Path | None,
    typer.Option(
        "--models",
        metavar="DIR",
        help="Directory of models, LANG.json or LANG.model. By default, matching models in "
        "unigram/ are used and missing ones are learned.",
    ),
]
Init = Annotated[
    Literal["uniform", "mean"],
    typer.Option("--init", help="Initial probabilities of EM: uniform, or the mean of the models."),
]
Weights = Annotated[
    str | None,
    typer.Option(
        "--weights",
        metavar="LANG=X,...",
        help="Weight of each language, such as fr=2,en=0.5; equal: equal total weight.",
    ),
]
Tolerance = Annotated[
    float,
    typer.Option(
        "--tolerance",
        metavar="X",
        min=0,
        help="Stop EM when the relative change of the log-likelihood is below X.",
    ),
]
Iterations = Annotated[
    int,
    typer.Option(
        "--iterations",
        metavar="N",
        min=0,
        help="Maximum number of EM iterations; 0 with --init mean disables EM.",
    ),
]


@command(
    "unigram-merge",
    resumes=True,
    examples="""
    # three languages from data/, into tokenizer/
    modtok unigram-merge --langs en,fi,fr -k 24000
    # use existing SentencePiece models, such as models/en.model
    modtok unigram-merge --langs en,fi --models models
    # no EM: mean probabilities of the models
    modtok unigram-merge --init mean --iterations 0
    # equal weight for all languages, whatever the size of their text
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
    no_default_specials: NoDefaultSpecials = False,
    data: Data = Path("data"),
    output: Output = Path("tokenizer"),
    reading: Reading = Reading(),
    threads: Threads = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Merge monolingual Unigram models into a modular tokenizer.

    Each language keeps its N pieces; shared pieces are stored once. Expectation-maximization
    over the text of all languages reestimates their probabilities. A compact tokenizer can be
    extracted for any subset of the languages. Without --langs, all languages in data/ are
    used.
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
        default_specials=not no_default_specials,
        reading=reading,
        threads=threads,
        force=force,
        progress=session.progress,
    )
    emit_report(report, title="Merged Unigram", json=json)
