"""Rows of `modtok study cost`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modtok_cli.measure.kind import Kind, Row, measuring_command
from modtok_cli.measure.plot.charts import Chart, Dots, Mark
from modtok_cli.measure.tables import Table, grouped, number, ratio, short_names


def cost_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Per tokenizer and model size: mean and max cost over languages."""
    lines = []
    for (tokenizer, scale), group in grouped(rows, "tokenizer", "scale").items():
        worst = max(group, key=lambda row: row["cost"])
        lines.append(
            {
                "tokenizer": tokenizer,
                "scale": scale,
                "size": max(row["size"] for row in group),
                "mean": float(np.mean([row["cost"] for row in group])),
                "max": worst["cost"],
                "worst": worst["language"],
            }
        )
    return lines


def cost_charts(rows: Sequence[Row]) -> list[Chart]:
    """Mean cost per model size, one row for each size."""
    labels = short_names([row["tokenizer"] for row in rows])
    series: dict[str, dict[str, Mark]] = {}
    for (tokenizer, scale), group in grouped(rows, "tokenizer", "scale").items():
        values = [row["cost"] for row in group]
        mark = Mark(sum(values) / len(values), min(values), max(values))
        series.setdefault(labels[tokenizer], {})[scale] = mark
    return [
        Dots(
            "Cost of a text by model size",
            "multiplications relative to monolingual tokenizers (bars: over languages)",
            list(dict.fromkeys(row["scale"] for row in rows)),
            series,
            reference=1.0,
        )
    ]


def cost_tables(rows: Sequence[Row]) -> list[Table]:
    """Cost by model size."""
    body = [
        [
            line["tokenizer"],
            line["scale"],
            number(line["size"]),
            ratio(line["mean"]),
            ratio(line["max"]),
            line["worst"],
        ]
        for line in cost_summary(rows)
    ]
    headings = ["tokenizer", "model", "size", "cost", "max", "of"]
    return [Table("Cost relative to monolingual tokenizers", headings, body, left=2)]


KIND = Kind(
    name="cost",
    title="Cost by model size",
    about="Multiplications of a forward pass, output layer included. Computed, not measured.",
    example="modtok study cost -t tokenizer -t tokenizer@each TEXT > results/cost.jsonl",
    charts=cost_charts,
    tables=cost_tables,
    order=80,
    fields=("tokenizer", "language", "text", "scale", "cost", "size"),
    command=measuring_command("study", "cost"),
)
