"""Means of `modtok eval grid` over tasks and languages."""

from __future__ import annotations

from collections.abc import Sequence

from modtok_cli.measure.grid_tables import SHOWN, title_of
from modtok_cli.measure.kind import Kind, Row
from modtok_cli.measure.plot.charts import Chart, Dots, Mark
from modtok_cli.measure.tables import Table, grouped


def means_charts(rows: Sequence[Row]) -> list[Chart]:
    """Means with intervals by system, a series for each mode, a chart for each measure."""
    charts: list[Chart] = []
    overall = [row for row in rows if row["language"] == "mean" and not row["drawn"]]
    for (measure,), group in grouped(overall, "measure").items():
        series: dict[str, dict[str, Mark]] = {}
        for row in group:
            mark = Mark(row["value"], row["low"], row["high"])
            series.setdefault(f"--infer {row['infer']}", {})[row["system"]] = mark
        systems = list(dict.fromkeys(row["system"] for row in group))
        charts.append(Dots(title_of(measure), "mean over languages", systems, series))
    return charts


def means_tables(rows: Sequence[Row]) -> list[Table]:
    """All tables of the paper that the grid has rows for."""
    return [table for make in SHOWN.values() for table in make(rows)]


KIND = Kind(
    name="grid-means",
    title="Means of a grid",
    about="Means over tasks and languages of runs under inference modes. Runs that differ in their "
    "seed only are one system.",
    example="modtok eval grid grid.toml && modtok report grids/grid",
    charts=means_charts,
    tables=means_tables,
    order=85,
    fields=("measure", "system", "infer", "language", "value", "low", "high", "spread"),
    by_fields=True,
    command=lambda rows: "modtok eval grid GRID",
)
