"""Rows of `modtok nsl`."""

from __future__ import annotations

from collections.abc import Sequence

from modtok_cli.measure.kind import Kind, Row, measuring_command
from modtok_cli.measure.plot.charts import Chart, Dots
from modtok_cli.measure.tables import (
    Table,
    by_text,
    by_tokenizer,
    grouped,
    language_table,
    languages_of,
)


def nsl_charts(rows: Sequence[Row]) -> list[Chart]:
    """NSL per language and tokenizer; tokens per character if no row has an NSL."""
    return [_nsl_chart(group, on) for on, group in by_text(rows)]


def _nsl_chart(rows: Sequence[Row], on: str) -> Dots:
    series = by_tokenizer(rows, "nsl")
    if not series:
        return per_character_chart(rows, on)
    return Dots(
        f"Tokens relative to a monolingual tokenizer{on}",
        "NSL (1: as many tokens as the language's own tokenizer; lower is better)",
        languages_of([row for row in rows if row["nsl"] is not None]),
        series,
        reference=1.0,
    )


def per_character_chart(rows: Sequence[Row], on: str = "") -> Dots:
    """Tokens per character by language and tokenizer."""
    return Dots(
        f"Tokens per character{on}",
        "tokens per character (lower is better, equal is fair)",
        languages_of(rows),
        by_tokenizer(rows, "tokens_per_character"),
    )


def nsl_tables(rows: Sequence[Row]) -> list[Table]:
    """NSL and tokens per character, a table for each text."""
    texts = grouped(rows, "text")
    joined = len(texts) > 1 and len({row["language"] for row in rows}) == len(texts)
    tables = []
    for (text,), group in {("all texts",): list(rows)}.items() if joined else texts.items():
        if any(row["nsl"] is not None for row in group):
            tables.append(language_table(group, "nsl", f"NSL on {text}"))
        tables.append(
            language_table(group, "tokens_per_character", f"Tokens per character on {text}")
        )
        if any(row.get("morph_score") is not None for row in group):
            tables.append(language_table(group, "morph_score", "MorphScore"))
    return tables


KIND = Kind(
    name="nsl",
    title="Tokens relative to monolingual tokenizers",
    about="NSL is the number of tokens divided by that of a tokenizer trained on the language "
    "alone. 1 means equal; lower is better.",
    example="modtok nsl -t tokenizer -t tokenizer@each TEXT > results/nsl.jsonl",
    charts=nsl_charts,
    tables=nsl_tables,
    order=10,
    fields=("tokenizer", "language", "text", "nsl", "tokens_per_character"),
    command=measuring_command("nsl"),
    measure=("nsl", "NSL"),
)
