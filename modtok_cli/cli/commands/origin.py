"""`modtok origin`: whose tokens a tokenizer of several languages uses for each of them."""

from __future__ import annotations

from modtok_cli.cli.command import command
from modtok_cli.cli.commands.nsl import texts_of
from modtok_cli.cli.options import Errors, Json, Lang, Plot, Texts, Tokenizer
from modtok_cli.cli.output import Column, emit_tables
from modtok_cli.cli.plotting import check_plot, emit_plot
from modtok_cli.cli.session import Session

COLUMNS = (
    Column("text", "text"),
    Column("language", "lang"),
    Column("tokens", "tokens", "int"),
    Column("outside", "outside %", "ratio"),
    Column("several", "of several %", "ratio"),
    Column("most", "most from"),
)


@command(
    "origin",
    examples="""
    # whose tokens the whole vocabulary uses for each language
    modtok origin flores/
    # the same of a union of three languages
    modtok origin -t tokenizer@en,fi,fr fi.txt fr.txt
    # the matrix of source and added languages as a picture
    modtok origin flores/ --plot origin.svg
    """,
)
def origin(
    session: Session,
    texts: Texts,
    tokenizer: Tokenizer = "tokenizer",
    lang: Lang = None,
    errors: Errors = "strict",
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Say which languages the tokens of a text come from.

    For text in a language, tokenized by the whole vocabulary or a union: the share of
    tokens that the language's own subtokenizer does not have, and the languages that they
    belong to.
    """
    sources = texts_of(texts)
    check_plot(plot)
    from modtok_cli.measure.origin import origin

    rows = origin(tokenizer, sources, language=lang, errors=errors, progress=session.progress)
    shown = [
        {
            **row,
            "outside": 100 * row["outside"],
            "several": 100 * row["several"],
            "most": _most(row["exclusive"]),
        }
        for row in rows
    ]
    emit_tables(rows, [("Tokens from outside the own subtokenizer", shown, COLUMNS)], json=json)
    emit_plot(session, plot, rows, "origin")


def _most(exclusive: dict[str, float], number: int = 3) -> str:
    """The languages that give most, with their percentages."""
    ordered = sorted(exclusive.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {100 * share:.2f}" for name, share in ordered[:number] if share)
