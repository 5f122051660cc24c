"""Rows of `modtok study scaling`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from modtok_cli.measure.kind import Kind, Row
from modtok_cli.measure.plot.charts import Chart, Curves
from modtok_cli.measure.tables import Table, grouped, number, ratio

_CURVES = 6
"""Families in a chart, the largest ones."""


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


def family_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Per family, largest first: languages, size of T, its share of the sum, exponent of growth.

    Sizes are means over orders. T of n languages has about n^`exponent` times the tokens of one:
    1 if languages share nothing, 0 if they share all.
    """
    lines = []
    for (family,), group in grouped(rows, "family").items():
        n = max(row["n"] for row in group)
        total = float(np.mean([row["total"] for row in group if row["n"] == n]))
        each = float(np.mean([row["tokens"] for row in group]))
        lines.append(
            {
                "family": family,
                "n": n,
                "total": round(total),
                "share": total / (n * each),
                "exponent": math.log(total / each) / math.log(n),
            }
        )
    return sorted(lines, key=lambda line: (-line["n"], line["family"]))


def scaling_charts(rows: Sequence[Row]) -> list[Chart]:
    """Size of T over the number of languages, one curve for each order or large family."""
    series: dict[str, list[tuple[float, float]]] = {}
    if _has_families(rows):
        for line in family_summary(rows)[:_CURVES]:
            family = [row for row in rows if row["family"] == line["family"]]
            series[line["family"]] = [(one["n"], one["total"]) for one in scaling_summary(family)]
        return [
            Curves("Size of T of each family", "languages", "tokens of T", series, from_zero=True)
        ]
    for row in rows:
        name = "alphabetical" if row["order"] == 0 else f"shuffled {row['order']}"
        series.setdefault(name, []).append((row["n"], row["total"]))
    return [
        Curves("Size of the whole vocabulary", "languages", "tokens of T", series, from_zero=True)
    ]


def scaling_tables(rows: Sequence[Row]) -> list[Table]:
    """Size of T."""
    if _has_families(rows):
        body = [
            [
                line["family"],
                number(line["n"]),
                number(line["total"]),
                ratio(line["share"]),
                ratio(line["exponent"]),
            ]
            for line in family_summary(rows)
        ]
        headings = ["family", "languages", "tokens of T", "of the sum", "exponent"]
        return [Table("Size of T of each family, mean over orders", headings, body)]
    body = [
        [str(line["n"]), *(number(line[key]) for key in ("total", "min", "max", "new", "adopted"))]
        for line in scaling_summary(rows)
    ]
    headings = ["languages", "tokens of T", "min", "max", "new", "adopted"]
    return [Table("Size of the whole vocabulary, mean over orders", headings, body)]


def _has_families(rows: Sequence[Row]) -> bool:
    return bool(rows) and "family" in rows[0]


KIND = Kind(
    name="scaling",
    title="Size of the vocabulary",
    about="Size of the sequential BPE vocabulary after each language.",
    example="modtok study scaling",
    charts=scaling_charts,
    tables=scaling_tables,
    order=60,
)
