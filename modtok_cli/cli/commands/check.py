"""`modtok check`: how well any tokenizer suits a language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.base.parameters import text_paths
from modtok_cli.cli import completion
from modtok_cli.cli.command import command
from modtok_cli.cli.commands.nsl import WORKSPACE_TOKENIZER, tokenizers_or_default
from modtok_cli.cli.options import Json, Lang, Plot, Tokenizers
from modtok_cli.cli.output import Column, emit_tables
from modtok_cli.cli.plotting import check_plot, emit_plot
from modtok_cli.cli.session import Session
from modtok_cli.text.reading import Reading

Arguments = Annotated[
    list[str],
    typer.Argument(
        metavar="TOKENIZER_OR_TEXT",
        autocompletion=completion.tokenizers,
        help="Tokenizers (as in -t) and texts (.txt, .jsonl, .parquet, .csv, .arrow, "
        "directory, or - for stdin), in any order.",
    ),
]


@command(
    "check",
    keeps=True,
    examples="""
    # how many tokens does Gemma's tokenizer need for Finnish?
    modtok check gemma.json fi.txt
    # several tokenizers on several languages, one file per language
    modtok check llama3.tiktoken other.model texts/
    # text from a pipe
    head -n 100 fi.txt | modtok check gemma.json - --lang fi
    # the tokenizer in tokenizer/, and each language's subset of it
    modtok check tokenizer tokenizer@each texts/
    """,
)
def check(
    session: Session,
    arguments: Arguments,
    tokenizer: Tokenizers = None,
    lang: Lang = None,
    reading: Reading = Reading(),
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Judge how well tokenizers suit a language.

    Needs no reference tokenizers. Reports tokens per word (fertility), per character and per
    byte, the share of tokens that are bytes instead of characters, that of unknown tokens if
    there are any, and a verdict with a reason. "vs own" estimates the tokens relative to a
    tokenizer made for the language, from measured values of 24 languages or their mean, about
    4 characters per token. Languages with the largest value come first.

    If English text is among the texts, tokens are compared with it as well: as a premium if
    the lines correspond, else per character. A word contains a letter or digit; scripts
    without spaces between words have no tokens per word.

    The language of a text is that of --lang, of its documents, or of its file name (fi.txt);
    else the references of the tokenizer identify it, if it is one of theirs. A text of unknown
    language is compared with the mean.

    Without a tokenizer, tokenizer/ is judged. For exact ratios with reference tokenizers use
    modtok nsl.
    """
    from modtok_cli.measure.check import check, split_arguments

    tokenizers, texts = split_arguments(arguments)
    if not texts:
        for name in tokenizers:
            if "@" not in name and not Path(name).exists():
                raise UsageError("no such file or directory", where=name)
        raise UsageError(
            f"no text among the arguments: {', '.join(arguments)}",
            remedy="as in: modtok check tokenizer.json fi.txt",
        )
    check_plot(plot)
    sources = text_paths(texts)
    specs = [*tokenizers, *(tokenizer or [])] or tokenizers_or_default(session, None, texts)
    if specs == [WORKSPACE_TOKENIZER] and not Path(WORKSPACE_TOKENIZER).exists():
        raise UsageError(
            f"no tokenizer among the arguments, and no {WORKSPACE_TOKENIZER}/ here: "
            + ", ".join(arguments),
            remedy="as in: modtok check tokenizer.json fi.txt",
        )
    rows = check(specs, sources, language=lang, reading=reading, progress=session.progress)
    emit_tables(
        rows,
        [
            ("Tokens per word, character and byte", rows, columns(rows)),
            ("Verdicts", verdicts(rows), VERDICTS),
        ],
        json=json,
    )
    for text in hints(rows):
        session.say(text)
    emit_plot(session, plot, rows, "check")


VERDICTS = (
    Column("name", "language"),
    Column("tokenizer", "tokenizer"),
    Column("text", "verdict"),
)


def columns(rows: Sequence[Mapping[str, Any]]) -> list[Column]:
    """Columns of the numbers; about English and unknown tokens only where there are any."""
    found = [
        Column("name", "language"),
        Column("tokenizer", "tokenizer"),
        Column("tokens", "tokens", "int"),
        Column("tokens_per_word", "/word", "ratio"),
        Column("tokens_per_character", "/char", "ratio"),
        Column("tokens_per_byte", "/byte", "ratio"),
        Column("excess", "vs own", "ratio"),
        Column("byte_tokens", "bytes", "ratio"),
    ]
    if any(row["unknown_tokens"] for row in rows):
        found.append(Column("unknown_tokens", "unknown", "ratio"))
    if any(row["premium"] is not None for row in rows):
        found.append(Column("premium", "vs English", "ratio"))
    elif any(row["per_character_premium"] is not None for row in rows):
        found.append(Column("per_character_premium", "/char vs English", "ratio"))
    return found


def verdicts(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the table of verdicts."""
    return [{**row, "text": f"{row['verdict']}: {row['reason']}"} for row in rows]


def hints(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """One line for each tokenizer that is poor or bad in some language."""
    from modtok_cli.measure.check import hint
    from modtok_cli.reports.tables import grouped

    found = map(hint, grouped(rows, "tokenizer").values())
    return [text for text in found if text]
