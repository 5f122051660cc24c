"""Rows of `modtok generate`."""

from __future__ import annotations

from collections.abc import Sequence

from modtok_cli.measure.kind import Kind, Row
from modtok_cli.measure.plot.charts import Chart
from modtok_cli.measure.tables import Table, number


def generation_charts(rows: Sequence[Row]) -> list[Chart]:
    """No charts: generated text is only listed."""
    return []


def generation_tables(rows: Sequence[Row]) -> list[Table]:
    """Prompts and continuations."""
    body = [
        [",".join(row["langs"]), row["prompt"], row["text"], number(row["prompt_tokens"])]
        for row in rows
    ]
    headings = ["vocabulary", "prompt", "continuation", "prompt tokens"]
    return [Table("Generated text", headings, body, left=3, prose=True)]


def generation_command(rows: Sequence[Row]) -> str:
    """`modtok generate` with the prompts from a file."""
    return "modtok generate < prompts.jsonl"


KIND = Kind(
    name="generation",
    title="Generated text",
    about="Continuations by the model of this workspace.",
    example="modtok generate < prompts.jsonl > results/generated.jsonl",
    charts=generation_charts,
    tables=generation_tables,
    order=110,
    fields=("prompt", "text", "langs", "prompt_tokens", "reason"),
    by_fields=True,
    command=generation_command,
)
