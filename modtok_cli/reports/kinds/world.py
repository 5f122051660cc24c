"""Curves and claims of `modtok study world`, drawn with bands over seeds."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any

from modtok_cli.reports.charts import Chart, Panels
from modtok_cli.reports.kinds import Kind
from modtok_cli.reports.tables import Row, Summary, grouped, parse_columns

_POINT = ("regime", "p", "step", "infer")
_FIGURES = {
    "BLEU": "Translation, BLEU",
    "in language": "Translation, % of outputs in the target language",
    "facts-all": "Facts that all languages state, accuracy",
    "facts-own": "Facts that the language alone states, accuracy",
    "facts-other": "Facts that one other language states, accuracy",
    "bits per byte": "Bits per byte of text without translations",
}


def _system(row: Row) -> str:
    return str(row["regime"]) if row["p"] is None else f"{row['regime']} p={row['p']:g}"


def mean_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Means over seeds, with the ends of 95% intervals, by system, step and mode."""
    from modtok_cli.evaluate.results import student_interval

    means = []
    for key, those in grouped(rows, *_POINT).items():
        row: dict[str, Any] = {**dict(zip(_POINT, key, strict=True)), "seeds": len(those)}
        for figure in _FIGURES:
            values = [each[figure] for each in those if figure in each]
            if values:
                row[figure] = fmean(values)
            if len(values) > 1:
                row[f"{figure}_low"], row[f"{figure}_high"] = student_interval(values)
        means.append(row)
    return means


def _charts(rows: Sequence[Row]) -> list[Chart]:
    """A chart for each figure: a panel for each inference mode, a curve for each system."""
    means = mean_rows(rows)
    seeds = max(row["seeds"] for row in means)
    note = f"Band: 95% interval over {seeds} seeds." if seeds > 1 else "One seed."
    charts: list[Chart] = []
    for figure, title in _FIGURES.items():
        panels: dict[str, dict[str, list[tuple[float, float]]]] = {}
        bands: dict[str, dict[str, list[tuple[float, float, float]]]] = {}
        for row in sorted(means, key=lambda row: int(row["step"])):
            if figure in row:
                place = (f"--infer {row['infer']}", _system(row))
                curve = panels.setdefault(place[0], {}).setdefault(place[1], [])
                curve.append((row["step"], row[figure]))
                if f"{figure}_low" in row:
                    # Intervals of few seeds are wide, but every figure is from 0 to 100.
                    low, high = max(0.0, row[f"{figure}_low"]), min(100.0, row[f"{figure}_high"])
                    band = bands.setdefault(place[0], {}).setdefault(place[1], [])
                    band.append((row["step"], low, high))
        if panels:
            charts.append(Panels(title, "steps", figure, panels, bands=bands, note=note, log=True))
    return charts


def _claims(rows: Sequence[Row]) -> list[Summary]:
    columns = parse_columns(
        "claim, p:ratio, step=steps:int, figure, value:score, other:score, low:score, high:score, "
        "expected, holds"
    )
    lines: list[dict[str, Any]] = [dict(row) for row in rows]
    return [("Claims: low and high are of the difference", lines, columns)]


CURVES = Kind(
    name="world-curves",
    title="Curves in controlled worlds",
    about="Sampling regimes after numbers of steps, in worlds of invented languages, under "
    "inference modes.",
    example="modtok study world -o worlds && modtok report worlds",
    charts=_charts,
    page_tables=lambda rows: [],
    order=92,
    fields=("regime", "p", "seed", "step", "infer", "BLEU"),
    by_fields=True,
    command=lambda rows: "modtok study world -o worlds",
)

CLAIMS = Kind(
    name="world-claims",
    title="Claims in controlled worlds",
    about="Differences between systems, with 95% intervals over seeds, and what was expected. A "
    "delay is the factor of steps until a regime translates as joint training.",
    example="modtok study world -o worlds && modtok report worlds",
    charts=lambda rows: [],
    summary=_claims,
    order=93,
    fields=("claim", "p", "step", "figure", "of", "against", "expected", "holds"),
    by_fields=True,
    command=lambda rows: "modtok study world -o worlds",
)

KINDS = (CURVES, CLAIMS)
