"""`modtok corpus stats`: size, words, duplicates and tokens of texts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Data,
    Json,
    Lang,
    Langs,
    OptionalTexts,
    Threads,
)
from modtok_cli.cli.output import Column, emit_rows, wants_json
from modtok_cli.cli.session import Session
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading

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
        help="Also count tokens: modular directory, DIR@fr,en, DIR@each, tokenizer.json, "
        ".model, or tiktoken file.",
    ),
]
Samples = Annotated[
    int,
    typer.Option(
        "--samples", metavar="N", min=0, help="Print N truncated documents of each language."
    ),
]


@command(
    "corpus stats",
    examples="""
    # all languages in data/
    modtok corpus stats
    # two files, with three sample documents each
    modtok corpus stats fr.txt fi.jsonl.zst --samples 3
    # with token counts under the subtokenizer of each language
    modtok corpus stats -t tokenizer@each
    # a file with no language in its name
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
    reading: Reading = Reading(),
    threads: Threads = None,
    json: Json = False,
) -> None:
    """Print statistics of texts.

    Counts documents, bytes, words, duplicates and optionally tokens. Prints one row per
    language of the data directory, or of TEXT. A document is a duplicate if it equals an
    earlier one.
    """
    languages = optional_languages(langs)
    if texts and languages is not None:
        raise UsageError("--langs selects from the data directory", remedy="omit --langs or TEXT")
    if lang is not None and not texts:
        raise UsageError("--lang is the language of TEXT", remedy="give a TEXT, or use --langs")
    from modtok_cli.measure.corpus_stats import corpus_stats
    from modtok_cli.text.workspace import by_language, language_files

    files = (
        by_language(texts, lang)
        if texts
        else language_files(data, languages, reading, progress=session.progress)
    )
    found = corpus_stats(
        files,
        tokenizer=tokenizer,
        reading=reading,
        samples=samples,
        threads=threads,
        progress=session.progress,
    )
    columns = COLUMNS if tokenizer else COLUMNS[:-1]
    emit_rows(found, columns, title="Corpus", json=json)
    if not wants_json(json):
        for row in found:
            for sample in row["samples"]:
                session.say(f"{row['language']}: {sample}")
