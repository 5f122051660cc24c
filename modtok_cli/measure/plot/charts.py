"""What a chart shows, without saying how it is drawn.

Four kinds are enough for every figure: values per language, distributions per language,
curves over a number, and a matrix. Languages are rows, so that any number of them and any
length of their names stay legible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Mark:
    """One value, and if it stands for several the smallest and the largest."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Dots:
    """A dot per row and series, with a bar from low to high where the mark has them.

    `series` maps a name to marks by row; a row that a series lacks stays empty.
    `reference` is a value to compare with, drawn as a line.
    """

    title: str
    axis: str
    rows: Sequence[str]
    series: Mapping[str, Mapping[str, Mark]]
    reference: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Spread:
    """A distribution per row and series: its shape, quartiles and median."""

    title: str
    axis: str
    rows: Sequence[str]
    series: Mapping[str, Mapping[str, Sequence[float]]]
    reference: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Curves:
    """Curves through (x, y) points, x ascending; `from_zero`: both axes begin at 0."""

    title: str
    x_axis: str
    y_axis: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    from_zero: bool = False
    note: str = ""


@dataclass(frozen=True)
class Heat:
    """A matrix of values that are 0 or more, darker for larger; missing cells stay empty."""

    title: str
    axis: str
    row_axis: str
    column_axis: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Mapping[tuple[str, str], float]
    note: str = ""


Chart = Dots | Spread | Curves | Heat


def is_empty(chart: Chart) -> bool:
    """Whether a chart has nothing to show."""
    if isinstance(chart, Heat):
        return not chart.values
    return not any(len(points) for points in chart.series.values())
