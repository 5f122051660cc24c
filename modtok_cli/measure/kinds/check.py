"""Rows of `modtok check`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from modtok_cli.measure.check import SOME_UNKNOWN
from modtok_cli.measure.kind import Kind, Row, measuring_command
from modtok_cli.measure.plot.charts import Chart, Dots
from modtok_cli.measure.tables import Table, by_text, by_tokenizer, language_table, languages_of


def check_charts(rows: Sequence[Row]) -> list[Chart]:
    """Tokens relative to the yardstick by language and tokenizer."""
    return [
        Dots(
            f"Tokens relative to a tokenizer made for the language{on}",
            "estimate (1: as many tokens as a tokenizer made for the language; lower is better)",
            languages_of(group),
            by_tokenizer(group, "excess"),
            reference=1.0,
        )
        for on, group in by_text(rows)
    ]


def check_tables(rows: Sequence[Row]) -> list[Table]:
    """The verdicts, and tokens per word."""
    tables = []
    for on, group in by_text(rows):
        verdicts = [
            [str(row["name"]), str(row["tokenizer"]), f"{row['verdict']}: {row['reason']}"]
            for row in group
        ]
        heads = ["language", "tokenizer", "verdict"]
        tables.append(Table(f"Verdicts{on}", heads, verdicts, left=3, prose=True))
        tables.append(language_table(group, "tokens_per_word", f"Tokens per word{on}"))
    return tables


_RANKED = Kind(
    name="check",
    title="Tokenizers judged by language",
    about="Tokens relative to an estimate for a tokenizer made for the language, without "
    "reference tokenizers.",
    example="modtok check tokenizer TEXT > results/check.jsonl",
    charts=check_charts,
    tables=check_tables,
    order=5,
    fields=("tokenizer", "language", "text", "excess", "verdict"),
    command=measuring_command("check"),
    measure=("excess", "ratio"),
)


def check_finding(rows: Sequence[Row]) -> str | None:
    """The best tokenizer, of those that do not lose text: unknown tokens are few and bad."""
    losing = {
        row["tokenizer"] for row in rows if (row.get("unknown_tokens") or 0.0) >= SOME_UNKNOWN
    }
    return _RANKED.finding([row for row in rows if row["tokenizer"] not in losing])


KIND = replace(_RANKED, sentence=check_finding)
