"""Charts as data, independent of how they are drawn.

Values per language, curves in one panel or several, and a matrix.
Languages are rows, so that any number of long names stays legible.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, quantiles

from modtok_cli.reports.tables import Row, display_name, languages_of, short_names

SQUEEZED = 3.0
"""The range is this many times the range of the lower three quarters, and the ratio of its ends."""
MOST_TOGETHER = 7
"""Series whose colors differ."""
Point = tuple[float, float]


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
    line.
    """

    title: str
    axis: str
    rows: Sequence[str]
    series: Mapping[str, Mapping[str, Mark]]
    reference: float | None = None
    note: str = ""

    @property
    def numbers(self) -> list[float]:
        """All values and ends of intervals."""
        marks = [mark for row in self.series.values() for mark in row.values()]
        ends = [end for each in marks for end in (each.value, each.low, each.high)]
        return [end for end in ends if end is not None]

    @property
    def log(self) -> bool:
        """Whether the axis is logarithmic: a few large values would squeeze all others."""
        return is_squeezed(self.numbers)


@dataclass(frozen=True)
class Curves:
    """Curves through (x, y) points with ascending x, in panels with common axes.

    `panels`: name → series → points; the name of a single panel is not shown. In a panel, more
    series than `MOST_TOGETHER` are not told apart by color (see `plot.figures`).
    """

    title: str
    x_axis: str
    y_axis: str
    panels: Mapping[str, Mapping[str, Sequence[Point]]]

    @property
    def series(self) -> dict[str, float]:
        """Each series with the mean of its last values."""
        last: dict[str, list[float]] = {}
        for curves in self.panels.values():
            for name, points in curves.items():
                last.setdefault(name, []).append(points[-1][1])
        return {name: fmean(values) for name, values in last.items()}


@dataclass(frozen=True)
class Heat:
    """A matrix of non-negative values by codes of languages; missing cells are left empty."""

    title: str
    axis: str
    row_axis: str
    column_axis: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Mapping[tuple[str, str], float]


Chart = Dots | Curves | Heat


def is_empty(chart: Chart) -> bool:
    """Whether a chart has no data."""
    return not (
        chart.values if isinstance(chart, Heat)
        else chart.numbers if isinstance(chart, Dots)
        else chart.panels
    )  # fmt: skip


def dots(
    rows: Sequence[Row],
    key: str,
    title: str,
    axis: str,
    *,
    reference: float | None = None,
    note: str = "",
) -> Dots:
    """Values of the field `key` with the interval of the row: a series for each tokenizer.

    Languages have their names; the largest mean over the series comes first. Where a language has
    no name, as "1b", they keep the order of their codes.
    """
    rows = [row for row in rows if row.get(key) is not None]
    names = short_names([row["tokenizer"] for row in rows])
    series: dict[str, dict[str, Mark]] = {}
    for row in rows:
        mark = Mark(float(row[key]), row.get("low"), row.get("high"))
        series.setdefault(names[row["tokenizer"]], {})[display_name(row["language"])] = mark
    means = {
        code: fmean(row[key] for row in rows if row["language"] == code)
        for code in languages_of(rows)
    }
    is_named = all(display_name(code) != code for code in means)
    codes = sorted(means, key=lambda code: -means[code]) if is_named else list(means)
    return Dots(title, axis, [display_name(code) for code in codes], series, reference, note)


def is_squeezed(values: Sequence[float]) -> bool:
    """Whether a few large values leave little room for the others on a linear axis.

    >>> is_squeezed([1.0, 1.1, 1.2, 1.1, 1.2, 9.0]), is_squeezed([1.0, 2.0, 3.0, 4.0])
    (True, False)
    """
    if len(values) < 4 or min(values) <= 0:
        return False
    low, high = min(values), max(values)
    upper = quantiles(values, n=4)[2]
    return high / low >= SQUEEZED and high - low >= SQUEEZED * (upper - low)
