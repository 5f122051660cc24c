"""Rows of `modtok study orders`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modtok_cli.measure.kind import Kind, Row
from modtok_cli.measure.plot.charts import Chart, Dots, Mark
from modtok_cli.measure.tables import Table, grouped, languages_of, number, ratio


def orders_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Per tokenizer and language: mean, min, max and range of the NSL over orders."""
    lines = []
    for (tokenizer, language), group in grouped(rows, "tokenizer", "language").items():
        values = [row["nsl"] for row in group]
        lines.append(
            {
                "tokenizer": tokenizer,
                "language": language,
                "size": round(float(np.mean([row["size"] for row in group]))),
                "mean": float(np.mean(values)),
                "min": min(values),
                "max": max(values),
                "spread": max(values) - min(values),
            }
        )
    return lines


def orders_charts(rows: Sequence[Row]) -> list[Chart]:
    """NSL per language, with a bar from the smallest to the largest over orders."""
    series: dict[str, dict[str, Mark]] = {}
    names = {"T": "sequential, all languages", "extracted": "extracted", "joint": "joint"}
    for (tokenizer, language), group in grouped(rows, "tokenizer", "language").items():
        values = [row["nsl"] for row in group]
        mark = Mark(sum(values) / len(values), min(values), max(values))
        series.setdefault(names.get(tokenizer, tokenizer), {})[language] = mark
    count = len({row["order"] for row in rows if row["order"] is not None})
    return [
        Dots(
            f"Sequential BPE under {count} language orders",
            "NSL (bars: min to max over orders)",
            languages_of(rows),
            series,
            reference=1.0,
        )
    ]


def orders_tables(rows: Sequence[Row]) -> list[Table]:
    """NSL over orders."""
    body = [
        [
            line["language"],
            line["tokenizer"],
            number(line["size"]),
            *(ratio(line[key]) for key in ("mean", "min", "max", "spread")),
        ]
        for line in orders_summary(rows)
    ]
    headings = ["language", "tokenizer", "size", "NSL", "min", "max", "range"]
    return [Table("NSL over language orders", headings, body, left=2)]


KIND = Kind(
    name="orders",
    title="Order of the languages",
    about="Sequential BPE learned under several orders of the languages, and an ordinary joint "
    "BPE of the same size.",
    example="modtok study orders TEXT",
    charts=orders_charts,
    tables=orders_tables,
    order=40,
)
