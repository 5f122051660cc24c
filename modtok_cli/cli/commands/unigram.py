"""`modtok unigram`: plain Unigram tokenizers, one per language or a joint one."""

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Budget,
    Data,
    Force,
    Json,
    Langs,
    NoDefaultSpecials,
    Output,
    Special,
    Threads,
    split_languages,
)
from modtok_cli.cli.report import emit_report
from modtok_cli.cli.session import Session
from modtok_cli.text.reading import Reading

Joint = Annotated[
    bool,
    typer.Option("--joint", help="Learn one tokenizer of N tokens for all languages."),
]


@command(
    "unigram",
    resumes=True,
    examples="""
    # three languages: unigram/en.json, unigram/en.model, …
    modtok unigram --langs en,fi,fr -k 24000
    # one multilingual tokenizer as a baseline: unigram-joint/
    modtok unigram --langs en,fi,fr --joint -k 64000
    """,
)
def unigram(
    session: Session,
    langs: Langs = None,
    k: Budget = 24000,
    joint: Joint = False,
    special: Special = None,
    no_default_specials: NoDefaultSpecials = False,
    data: Data = Path("data"),
    output: Output = None,
    reading: Reading = Reading(),
    threads: Threads = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn plain Unigram tokenizers, per language or jointly.

    SentencePiece trains on word counts with the settings of the paper: no normalization,
    whitespace preserved, digits split, byte fallback. Each tokenizer is written as
    tokenizer.json and as SentencePiece .model; both give the same tokens. Without --langs,
    all languages in data/ are used.
    """
    languages = split_languages(langs)
    from modtok_cli.construct.unigram import unigram

    report = unigram(
        languages,
        data=data,
        output=output,
        k=k,
        joint=joint,
        specials=tuple(special or ()),
        default_specials=not no_default_specials,
        reading=reading,
        threads=threads,
        force=force,
        progress=session.progress,
    )
    emit_report(report, title="Unigram", json=json)
