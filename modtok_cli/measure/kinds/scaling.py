"""Rows of `modtok study scaling`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modtok_cli.measure.kind import Kind, Row
from modtok_cli.measure.plot.charts import Chart, Curves
from modtok_cli.measure.tables import Table, grouped, number


def scaling_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Per number of languages: mean, min and max size of T over orders, and new tokens."""
    lines = []
    for (n,), group in grouped(rows, "n").items():
        totals = [row["total"] for row in group]
        lines.append(
            {
                "n": n,
                "total": round(float(np.mean(totals))),
                "min": min(totals),
                "max": max(totals),
                "new": round(float(np.mean([row["new"] for row in group]))),
                "adopted": round(float(np.mean([row["adopted"] for row in group]))),
            }
        )
    return lines


def scaling_charts(rows: Sequence[Row]) -> list[Chart]:
    """Size of T over the number of languages, one curve for each order."""
    series: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        name = "alphabetical" if row["order"] == 0 else f"shuffled {row['order']}"
        series.setdefault(name, []).append((row["n"], row["total"]))
    return [
        Curves("Size of the whole vocabulary", "languages", "tokens of T", series, from_zero=True)
    ]


def scaling_tables(rows: Sequence[Row]) -> list[Table]:
    """Size of T."""
    body = [
        [str(line["n"]), *(number(line[key]) for key in ("total", "min", "max", "new", "adopted"))]
        for line in scaling_summary(rows)
    ]
    headings = ["languages", "tokens of T", "min", "max", "new", "adopted"]
    return [Table("Size of the whole vocabulary, mean over orders", headings, body)]


KIND = Kind(
    name="scaling",
    title="Size of the vocabulary",
    about="Size of the sequential BPE vocabulary after each language.",
    example="modtok study scaling",
    charts=scaling_charts,
    tables=scaling_tables,
    order=60,
)
