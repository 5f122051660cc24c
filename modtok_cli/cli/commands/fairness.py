"""`modtok fairness`: compare tokenization cost between languages on parallel text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from modtok_cli.base.parameters import text_paths
from modtok_cli.cli.command import command
from modtok_cli.cli.commands.nsl import tokenizers_or_default
from modtok_cli.cli.options import Json, Lang, Plot, References, Texts, Tokenizers
from modtok_cli.cli.output import Column, emit_tables
from modtok_cli.cli.plotting import check_plot, emit_plot
from modtok_cli.cli.session import Session
from modtok_cli.text.reading import Reading

TOTALS = (
    Column("tokenizer", "tokenizer"),
    Column("size", "size", "int"),
    Column("per_character_mean", "/char", "ratio"),
    Column("per_character_max_min", "max/min", "ratio"),
    Column("premium_max", "premium", "ratio"),
    Column("premium_max_language", "of"),
    Column("tokens_gini", "Gini", "ratio"),
    Column("nsl_mean", "NSL", "ratio"),
    Column("utilization", "used", "ratio"),
    Column("merge_only", "junk", "ratio"),
)

Pivot = Annotated[
    str | None,
    typer.Option(
        "--pivot",
        metavar="LANG",
        help="Language that premiums are relative to; by default en, else the first language.",
    ),
]


@command(
    "fairness",
    keeps=True,
    examples="""
    # tokenizer/ on parallel text, one file per language
    modtok fairness flores/
    # each language with its own subtokenizer, and external tokenizers
    modtok fairness -t tokenizer@each -t llama3.tiktoken -t gemma.json flores/
    # plot, relative to French
    modtok fairness -t tokenizer flores/ --pivot fr --plot fairness.svg
    """,
)
def fairness(
    session: Session,
    texts: Texts,
    tokenizer: Tokenizers = None,
    pivot: Pivot = None,
    references: References = None,
    lang: Lang = None,
    reading: Reading = Reading(),
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Compare token counts of languages on parallel text.

    Reads line-aligned text, one file per language. Reports tokens per character, byte and
    word; the premium over a pivot language; Gini coefficient and max/min ratio over
    languages; the share of the vocabulary in use; and the share of tokens that occur only
    as parts of others (junk).

    Rows of kind "language" are followed by one row of kind "tokenizer" per tokenizer.
    """
    sources = text_paths(texts)
    check_plot(plot)
    from modtok_cli.measure.fairness import fairness
    from modtok_cli.reports.kinds.tokenizers import summary_title

    rows = fairness(
        tokenizers_or_default(session, tokenizer, texts),
        sources,
        pivot=pivot,
        references=references,
        language=lang,
        reading=reading,
        progress=session.progress,
    )
    totals = [row for row in rows if row["kind"] == "tokenizer"]
    wide, columns = per_language(rows)
    emit_tables(
        rows,
        [("Tokens per character", wide, columns), (summary_title(rows), totals, TOTALS)],
        json=json,
    )
    emit_plot(session, plot, rows, "fairness")


def per_language(
    rows: Sequence[Mapping[str, Any]],
) -> tuple[list[dict[str, Any]], list[Column]]:
    """Languages as rows, tokenizers as columns: tokens per character."""
    table: dict[str, dict[str, Any]] = {}
    labels: dict[str, None] = {}
    for row in rows:
        if row["kind"] == "language":
            labels[row["tokenizer"]] = None
            line = table.setdefault(row["language"], {"language": row["language"]})
            line[row["tokenizer"]] = row["tokens_per_character"]
    columns = [Column("language", "lang"), *(Column(name, name, "ratio") for name in labels)]
    return list(table.values()), columns
