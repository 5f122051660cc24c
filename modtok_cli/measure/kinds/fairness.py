"""Rows of `modtok fairness`."""

from __future__ import annotations

from collections.abc import Sequence

from modtok_cli.measure.kind import Kind, Row, measuring_command
from modtok_cli.measure.kinds.nsl import per_character_chart
from modtok_cli.measure.plot.charts import Chart, Dots
from modtok_cli.measure.tables import (
    Table,
    by_tokenizer,
    language_table,
    languages_of,
    number,
    percent,
    ratio,
    short_names,
)
from modtok_cli.text.language_names import language_name


def fairness_charts(rows: Sequence[Row]) -> list[Chart]:
    """Tokens per character, and the premium over the pivot language."""
    lines = [row for row in rows if row.get("kind") == "language"]
    pivot = lines[0]["pivot"] if lines else "en"
    premium = Dots(
        f"Parity premium over {language_name(pivot)}",
        f"tokens for the same lines, relative to {language_name(pivot)} (1: equal)",
        languages_of(lines),
        by_tokenizer(lines, "premium"),
        reference=1.0,
    )
    return [per_character_chart(lines), premium]


def fairness_tables(rows: Sequence[Row]) -> list[Table]:
    """A summary over languages, then tables by language."""
    lines = [row for row in rows if row["kind"] == "language"]
    totals = [row for row in rows if row["kind"] == "tokenizer"]
    names = short_names([row["tokenizer"] for row in totals])
    summary = Table(
        summary_title(rows),
        [
            "tokenizer", "size", "tokens/character", "max/min", "premium", "of", "Gini",
            "NSL", "vocabulary used %", "junk %",
        ],
        [
            [
                names[row["tokenizer"]],
                number(row["size"]),
                ratio(row["per_character_mean"]),
                ratio(row["per_character_max_min"]),
                ratio(row["premium_max"]),
                str(row["premium_max_language"]),
                ratio(row["tokens_gini"]),
                ratio(row.get("nsl_mean")),
                percent(row["utilization"]),
                percent(row["merge_only"]),
            ]
            for row in totals
        ],
    )  # fmt: skip
    pivot = lines[0]["pivot"] if lines else "en"
    return [
        *([summary] if totals else []),
        language_table(lines, "tokens_per_character", "Tokens per character"),
        language_table(lines, "premium", f"Parity premium over {language_name(pivot)}", mean=False),
    ]


def summary_title(rows: Sequence[Row]) -> str:
    """Title of the summary rows, with the languages that they are over.

    >>> line = {"kind": "language", "language": "en"}
    >>> total = {"kind": "tokenizer", "languages": ["en"]}
    >>> summary_title([line, total]), summary_title([line, {**line, "language": "fi"}, total])
    ('Over 1 language', 'Over the 1 of 2 languages that all tokenizers have: en')
    """
    present = languages_of([row for row in rows if row["kind"] == "language"])
    over = next((list(row["languages"]) for row in rows if row["kind"] == "tokenizer"), [])
    if len(over) == len(present):
        return f"Over {len(over)} language{'s' * (len(over) != 1)}"
    names = ", ".join(over)
    return f"Over the {len(over)} of {len(present)} languages that all tokenizers have: {names}"


KIND = Kind(
    name="fairness",
    title="Fairness across languages",
    about="The texts are the same lines in every language. The premium is a language's number of "
    "tokens divided by that of the pivot language. Gini is 0 if all languages need the same number "
    "of tokens. Junk tokens occur only as parts of other tokens.",
    example="modtok fairness -t tokenizer -t tokenizer@each TEXT > results/fairness.jsonl",
    charts=fairness_charts,
    tables=fairness_tables,
    order=20,
    fields=("kind", "tokenizer"),
    command=measuring_command("fairness"),
    measure=("premium", "premium"),
)
