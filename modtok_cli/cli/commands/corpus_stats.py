"""`modtok corpus stats`: what a text holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Data,
    Errors,
    Json,
    Lang,
    Langs,
    OptionalTexts,
    Threads,
    split_languages,
)
from modtok_cli.cli.output import Column, emit_rows, is_stdout_terminal
from modtok_cli.cli.session import Session

COLUMNS = (
    Column("language", "language"),
    Column("documents", "documents", "int"),
    Column("characters", "characters", "int"),
    Column("bytes", "text", "bytes"),
    Column("words", "words", "int"),
    Column("unique_words", "unique", "int"),
    Column("duplicates", "duplicates", "int"),
    Column("tokens", "tokens", "int"),
)

StatsTokenizer = Annotated[
    str | None,
    typer.Option(
        "-t",
        "--tokenizer",
        metavar="TOKENIZER",
        help="Count tokens too: a modular directory, DIR@fr,en, DIR@each, tokenizer.json, "
        ".model, or tiktoken ranks.",
    ),
]
Samples = Annotated[
    int,
    typer.Option(
        "--samples", metavar="N", min=0, help="Show N documents of each language, cut short."
    ),
]


@command(
    "corpus stats",
    examples="""
    # every language in data/
    modtok corpus stats
    # two files, with three documents of each
    modtok corpus stats fr.txt fi.jsonl.zst --samples 3
    # with the tokens of each language under its own subtokenizer
    modtok corpus stats -t tokenizer@each
    # a file whose name tells no language
    modtok corpus stats --lang sw stories.txt
    """,
)
def corpus_stats(
    session: Session,
    texts: OptionalTexts = None,
    langs: Langs = None,
    lang: Lang = None,
    data: Data = Path("data"),
    tokenizer: StatsTokenizer = None,
    samples: Samples = 0,
    errors: Errors = "strict",
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Say what a text holds: documents, size, words, duplicates, tokens.

    For each language of the data directory, or of TEXT. Duplicates are documents that
    equal an earlier one.
    """
    languages = split_languages(langs)
    if texts and languages is not None:
        raise UsageError("--langs chooses from the data directory", remedy="leave it out, or TEXT")
    if lang is not None and not texts:
        raise UsageError("--lang says the language of TEXT", remedy="name a text, or use --langs")
    from modtok_cli.measure.corpus_stats import corpus_stats
    from modtok_cli.text.workspace import by_language, language_files

    files = by_language(texts, lang) if texts else language_files(data, languages)
    found = corpus_stats(
        files,
        tokenizer=tokenizer,
        errors=errors,
        samples=samples,
        threads=threads,
        progress=session.progress,
    )
    columns = COLUMNS if tokenizer else COLUMNS[:-1]
    emit_rows(found, columns, title="Corpus", json=json)
    if is_stdout_terminal() and not json:
        for row in found:
            for sample in row["samples"]:
                session.say(f"{row['language']}: {sample}")
