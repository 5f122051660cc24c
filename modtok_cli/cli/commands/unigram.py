"""`modtok unigram`: one language, or several in one vocabulary."""

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Budget,
    Data,
    Errors,
    Force,
    Json,
    Langs,
    Output,
    Special,
    Threads,
    split_languages,
)
from modtok_cli.cli.report import emit_report
from modtok_cli.cli.session import Session

Joint = Annotated[
    bool,
    typer.Option("--joint", help="One tokenizer of N tokens over all languages together."),
]


@command(
    "unigram",
    examples="""
    # a tokenizer for each: unigram/en.json, unigram/en.model, …
    modtok unigram --langs en,fi,fr -k 24000
    # one ordinary multilingual tokenizer of 64,000 tokens: unigram-joint/
    modtok unigram --langs en,fi,fr --joint -k 64000
    """,
)
def unigram(
    session: Session,
    langs: Langs = None,
    k: Budget = 24000,
    joint: Joint = False,
    special: Special = None,
    data: Data = Path("data"),
    output: Output = None,
    errors: Errors = "strict",
    threads: Threads = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn a Unigram tokenizer, for each language or jointly.

    SentencePiece learns it from word counts, with the settings of the paper: nothing
    normalized, no white space removed, digits apart, bytes for what no piece spells. Each
    is written as tokenizer.json and as .model, which segment alike. Without --langs, every
    language in data/.
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
        errors=errors,
        threads=threads,
        force=force,
        progress=session.progress,
    )
    emit_report(report, title="Unigram", json=json)
