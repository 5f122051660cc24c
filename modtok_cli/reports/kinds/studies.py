"""Rows of `modtok study cost`."""

from collections.abc import Sequence
from typing import Any

from modtok_cli.reports.charts import Chart, Dots, Mark
from modtok_cli.reports.kinds import Kind, measuring_command
from modtok_cli.reports.tables import (
    Row,
    Summary,
    grouped,
    marks_of,
    over,
    parse_columns,
    short_names,
    unique,
)


def _interval(rows: Sequence[Row], key: str) -> Mark:
    """Mean, smallest and largest value of a field."""
    values = [row[key] for row in rows]
    return Mark(sum(values) / len(values), min(values), max(values))


def _sizes_and(rows: Sequence[Row], key: str, *keys: str) -> list[dict[str, Any]]:
    """Per value of `keys`: size, and mean, min and max of a field over languages."""
    return [
        {
            **dict(zip(keys, values, strict=True)),
            "size": max(row["size"] for row in group),
            **over(group, key),
        }
        for values, group in grouped(rows, *keys).items()
    ]


def _cost_summary(rows: Sequence[Row]) -> list[Summary]:
    """Per tokenizer and model size: mean and max cost over languages."""
    lines = _sizes_and(rows, "cost", "tokenizer", "scale")
    columns = parse_columns(
        "tokenizer, scale=model, size:int, mean=cost:ratio, max:ratio, worst=of"
    )
    return [("Cost relative to monolingual tokenizers", lines, columns)]


def _cost_charts(rows: Sequence[Row]) -> list[Chart]:
    """Mean cost per model size, one row for each size."""
    labels = short_names([row["tokenizer"] for row in rows])
    series = marks_of(
        (labels[tokenizer], scale, _interval(group, "cost"))
        for (tokenizer, scale), group in grouped(rows, "tokenizer", "scale").items()
    )
    axis = "multiplications relative to monolingual tokenizers (bars: over languages)"
    scales = unique(rows, "scale")
    return [Dots("Cost of a text by model size", axis, scales, series, reference=1.0)]


COST = Kind(
    name="cost",
    title="Cost by model size",
    about="Multiplications of a forward pass, output layer included. Computed, not measured.",
    example="modtok study cost -t tokenizer -t tokenizer@each TEXT > results/cost.jsonl",
    charts=_cost_charts,
    summary=_cost_summary,
    order=80,
    fields=("tokenizer", "language", "text", "scale", "cost", "size"),
    command=measuring_command("study", "cost"),
)


KINDS = (COST,)
