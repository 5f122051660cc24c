"""Rows of `modtok study combos`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from modtok_cli.measure.kind import Kind, Row
from modtok_cli.measure.plot.charts import Chart, Spread
from modtok_cli.measure.tables import Table, grouped, languages_of, number, ratio


def combos_summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Per number of languages and method: mean, standard deviations, min and max of the NSL.

    `std` is that of the languages' means and `std_all` that of all values: the paper's table does
    not say which of the two it reports.
    """
    lines = []
    for (n, method), group in grouped(rows, "n", "method").items():
        values = np.array([row["nsl"] for row in group])
        means = [
            float(np.mean([row["nsl"] for row in mine]))
            for mine in grouped(group, "language").values()
        ]
        lines.append(
            {
                "n": n,
                "method": method,
                "sets": len({tuple(row["languages"]) for row in group}),
                "values": len(values),
                "mean": float(values.mean()),
                "std": float(np.std(means)),
                "std_all": float(values.std()),
                "min": float(values.min()),
                "max": float(values.max()),
            }
        )
    return sorted(lines, key=lambda line: (line["n"], line["method"]))


def combos_charts(rows: Sequence[Row]) -> list[Chart]:
    """Distribution of NSL per language, for each number of languages from two."""
    charts: list[Chart] = []
    for (n,), group in grouped(rows, "n").items():
        if n < 2:
            continue
        series: dict[str, dict[str, list[float]]] = {"concatenated": {}, "sequential": {}}
        for row in group:
            series[row["method"]].setdefault(row["language"], []).append(row["nsl"])
        charts.append(
            Spread(
                f"Unions of {n} languages",
                "NSL (shape: distribution over sets and orders; bar: quartiles)",
                languages_of(group),
                series,
                reference=1.0,
            )
        )
    return charts


def combos_tables(rows: Sequence[Row]) -> list[Table]:
    """NSL of unions."""
    body = [
        [
            str(line["n"]),
            line["method"],
            number(line["sets"]),
            number(line["values"]),
            *(ratio(line[key]) for key in ("mean", "std", "std_all", "min", "max")),
        ]
        for line in combos_summary(rows)
    ]
    headings = [
        "languages", "method", "sets", "values", "NSL", "± languages", "± all", "min", "max",
    ]  # fmt: skip
    return [Table("NSL of unions of languages", headings, body, left=2)]


KIND = Kind(
    name="combos",
    title="Unions of languages",
    about="Sets of languages: the union extracted from sequential BPE, and concatenated "
    "monolingual BPE in every order.",
    example="modtok study combos TEXT",
    charts=combos_charts,
    tables=combos_tables,
    order=50,
)
