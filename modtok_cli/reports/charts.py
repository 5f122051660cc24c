"""Charts as data, independent of how they are drawn.

Values per language, curves, small charts of curves, and a matrix.
Languages are rows, so that any number of long names stays legible.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Mark:
    """A value, optionally with the ends of an interval or range."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Dots:
    """A dot per row and series, with a bar from low to high if the mark has them.

    `series` maps a name to marks by row; missing rows are left empty. `reference` is drawn as a
    line, `log` takes a logarithmic axis. `styles`: series → index of its color and marker, by
    default its position.
    """

    title: str
    axis: str
    rows: Sequence[str]
    series: Mapping[str, Mapping[str, Mark]]
    reference: float | None = None
    note: str = ""
    log: bool = False
    styles: Mapping[str, int] = field(default_factory=dict)

    @property
    def numbers(self) -> list[float]:
        """All values and ends of intervals."""
        marks = [mark for row in self.series.values() for mark in row.values()]
        ends = [end for each in marks for end in (each.value, each.low, each.high)]
        return [end for end in ends if end is not None]


@dataclass(frozen=True)
class Curves:
    """Curves through (x, y) points with ascending x."""

    title: str
    x_axis: str
    y_axis: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    note: str = ""
    styles: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Panels:
    """Small charts of curves with common axes; all have the same series.

    `panels`: name → series → points. `shown`: panel → series in color, by default all; the others
    are grey.
    """

    title: str
    x_axis: str
    y_axis: str
    panels: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]
    shown: Mapping[str, Sequence[str]] = field(default_factory=dict)
    note: str = ""
    styles: Mapping[str, int] = field(default_factory=dict)

    @property
    def series(self) -> Mapping[str, Sequence[tuple[float, float]]]:
        """The series that are in color somewhere; the points of one panel."""
        curves = {name: points for all in self.panels.values() for name, points in all.items()}
        colored = dict.fromkeys(name for names in self.shown.values() for name in names)
        return {name: curves[name] for name in colored or curves}


@dataclass(frozen=True)
class Heat:
    """A matrix of non-negative values, darker for larger ones; missing cells are left empty."""

    title: str
    axis: str
    row_axis: str
    column_axis: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Mapping[tuple[str, str], float]
    note: str = ""


Chart = Dots | Curves | Panels | Heat


MOST_TOGETHER = 7
"""Series whose colors differ; more are drawn in a panel each, with the others in grey."""


def styles_of(chart: Dots | Curves | Panels) -> dict[str, int]:
    """Series → index of its color and marker, in the order of the legend."""
    return {name: chart.styles.get(name, index) for index, name in enumerate(chart.series)}


def is_empty(chart: Chart) -> bool:
    """Whether a chart has no data."""
    if isinstance(chart, Heat):
        return not chart.values
    return not any(len(points) for points in chart.series.values())
