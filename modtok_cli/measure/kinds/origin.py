"""Rows of `modtok origin`."""

from __future__ import annotations

from collections.abc import Sequence

from modtok_cli.measure.kind import Kind, Row, measuring_command
from modtok_cli.measure.plot.charts import Chart, Dots, Heat, Mark
from modtok_cli.measure.tables import Table, by_text, languages_of, number, percent


def origin_charts(rows: Sequence[Row]) -> list[Chart]:
    """Share of tokens from other languages, and the languages they belong to."""
    return [chart for on, group in by_text(rows) for chart in _origin_charts(group, on)]


def _origin_charts(rows: Sequence[Row], on: str) -> list[Chart]:
    languages = languages_of(rows)
    columns = sorted({name for row in rows for name in row["exclusive"]} | set(languages))
    outside = {
        "of any other language": {row["language"]: Mark(100 * row["outside"]) for row in rows},
        "of exactly one other language": {
            row["language"]: Mark(100 * sum(row["exclusive"].values())) for row in rows
        },
    }
    values = {
        (row["language"], column): 100 * share
        for row in rows
        for column, share in row["exclusive"].items()
    }
    return [
        Dots(
            f"Tokens outside the language's own subtokenizer{on}",
            "% of the tokens of its text",
            languages,
            outside,
        ),
        Heat(
            f"Languages that these tokens belong to{on}",
            "% of the source's tokens that belong to the added language only",
            "source",
            "added language",
            languages,
            columns,
            values,
        ),
    ]


def origin_tables(rows: Sequence[Row]) -> list[Table]:
    """Shares of tokens from other languages, and the largest contributors."""
    body = []
    for row in rows:
        ordered = sorted(row["exclusive"].items(), key=lambda item: (-item[1], item[0]))
        most = ", ".join(f"{name} {percent(share)}" for name, share in ordered[:3] if share)
        alone = sum(row["exclusive"].values())
        shares = [percent(row["outside"]), percent(alone), percent(row["several"])]
        body.append([row["language"], number(row["tokens"]), *shares, most])
    headings = ["language", "tokens", "outside %", "one other %", "several %", "largest"]
    return [Table("Tokens outside the language's own subtokenizer", headings, body)]


KIND = Kind(
    name="origin",
    title="Origin of tokens",
    about="Text of each language, tokenized by the union. Shows tokens that are not in the "
    "language's own subtokenizer.",
    example="modtok origin TEXT > results/origin.jsonl",
    charts=origin_charts,
    tables=origin_tables,
    order=30,
    fields=("tokenizer", "language", "text", "outside", "several", "exclusive"),
    command=measuring_command("origin"),
)
