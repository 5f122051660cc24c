"""Charts as text for a terminal."""

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from textwrap import wrap

from modtok_cli.reports.charts import Chart, Curves, Dots, Heat, Point

_SIGNS = "●■▲◆▼✚▮○□△◇▽"
_SHADES = " ░▒▓█"
SEVERAL = "*"
"""The sign of series that coincide."""


def to_text(chart: Chart, width: int = 80) -> list[str]:
    """Lines of at most `width` characters."""
    note = ""
    if isinstance(chart, Dots):
        body, note = _dots(chart, width), chart.note
    elif isinstance(chart, Curves):
        body = []
        for name, curves in chart.panels.items():
            body += [name] * bool(name) + _curves(chart, curves, width) + [""] * bool(name)
    else:
        body = _heat(chart, width)
    return [*wrap(chart.title, width), "", *body, *wrap(note, width)]


def _centered(text: str, width: int) -> list[str]:
    return [f"{line:^{width}}".rstrip() for line in wrap(text, width)]


def _legend(names: Sequence[str]) -> list[str]:
    return [f"  {_SIGNS[i % len(_SIGNS)]} {name}" for i, name in enumerate(names)]


class _Scale:
    """Positions of values in a line of `cells` characters, with round numbers at its ends."""

    def __init__(self, values: Sequence[float], cells: int, *, log: bool = False) -> None:
        self.low, self.high = round_ends(min(values), max(values), log=log)
        self.cells = cells
        self._log = log

    def at(self, value: float) -> int:
        value, low, high = map(log10 if self._log else float, (value, self.low, self.high))
        share = (value - low) / (high - low)
        return min(self.cells - 1, max(0, round(share * (self.cells - 1))))

    def ends(self, indent: int) -> str:
        left, right = f"{self.low:g}", f"{self.high:g}"
        return " " * indent + left + right.rjust(self.cells - len(left))


def _dots(chart: Dots, width: int) -> list[str]:
    names = list(chart.series)
    label = max(map(len, chart.rows))
    reference = [] if chart.reference is None else [chart.reference]
    scale = _Scale([*chart.numbers, *reference], max(16, width - label - 2), log=chart.log)
    lines = _legend(names)
    coincide = False
    for row in chart.rows:
        cells = ["┄"] * scale.cells
        if chart.reference is not None:
            cells[scale.at(chart.reference)] = "│"
        marks = [chart.series[name].get(row) for name in names]
        for mark in marks:
            if mark and mark.low is not None and mark.high is not None:
                for i in range(scale.at(mark.low), scale.at(mark.high) + 1):
                    cells[i] = "━"
        places: dict[int, str] = {}
        for i, mark in enumerate(marks):
            if mark:
                at = scale.at(mark.value)
                places[at] = SEVERAL if at in places else _SIGNS[i % len(_SIGNS)]
        for at, sign in places.items():
            cells[at] = sign
        coincide |= SEVERAL in places.values()
        lines.append(f"{row:>{label}}  {''.join(cells)}")
    if coincide:
        lines.insert(len(names), f"  {SEVERAL} several of them")
    name = f"{chart.axis}; logarithmic" if chart.log else chart.axis
    return [*lines, scale.ends(label + 2), *_centered(name, width)]


def _curves(
    chart: Curves, series: Mapping[str, Sequence[Point]], width: int, height: int = 14
) -> list[str]:
    names = list(series)
    points = [point for curve in series.values() for point in curve]
    down = _Scale([y for _, y in points], height)
    label = max(len(f"{down.low:g}"), len(f"{down.high:g}"))
    across = _Scale([x for x, _ in points], max(16, width - label - 2))
    grid = [[" "] * across.cells for _ in range(height)]
    owners: dict[tuple[int, int], set[int]] = {}
    for i, name in enumerate(names):
        for x, y in series[name]:
            owners.setdefault((height - 1 - down.at(y), across.at(x)), set()).add(i)
    for (line, column), those in owners.items():
        grid[line][column] = SEVERAL if len(those) > 1 else _SIGNS[min(those) % len(_SIGNS)]
    several = any(len(those) > 1 for those in owners.values())
    extra = [f"  {SEVERAL} several of them"] if several else []
    lines = [*_legend(names), *extra, chart.y_axis]
    for i, cells in enumerate(grid):
        end = f"{down.high:g}" if i == 0 else f"{down.low:g}" if i == height - 1 else ""
        lines.append(f"{end:>{label}} │{''.join(cells)}".rstrip())
    return [*lines, across.ends(label + 2), *_centered(chart.x_axis, width)]


def _heat(chart: Heat, width: int) -> list[str]:
    label = max(map(len, chart.rows))
    wide = max(2, max(map(len, chart.columns))) + (
        1 if (max(map(len, chart.columns)) + 1) * len(chart.columns) + label + 2 <= width else 0
    )
    largest = round_ends(0.0, max(chart.values.values(), default=0.0) or 1.0)[1]
    lines = [
        f"rows: {chart.row_axis}; columns: {chart.column_axis}",
        " " * (label + 1) + "".join(f"{column:>{wide}}" for column in chart.columns),
    ]
    for row in chart.rows:
        cells = []
        for column in chart.columns:
            value = chart.values.get((row, column))
            if value is None:
                cells.append("·".rjust(wide))
                continue
            # Square root: separates small values, of which such matrices mostly consist.
            step = min(len(_SHADES) - 1, int((value / largest) ** 0.5 * len(_SHADES)))
            cells.append(_SHADES[step] * 2 if wide == 2 else (_SHADES[step] * 2).rjust(wide))
        lines.append(f"{row:>{label}} {''.join(cells)}".rstrip())
    steps = [largest * (i / len(_SHADES)) ** 2 for i in range(len(_SHADES))]
    scale = ", ".join(
        f"{'blank' if sign == ' ' else sign * 2} from {start:.2f}"
        for sign, start in zip(_SHADES, steps, strict=True)
    )
    return [*lines, *wrap(f"{chart.axis}: {scale}", width)]


def round_ends(low: float, high: float, *, log: bool = False) -> tuple[float, float]:
    """Round numbers at or below `low` and at or above `high`; with `log`, 1, 2, 5, 10, …

    >>> round_ends(0.93, 1.31), round_ends(2, 2), round_ends(0.9, 11.0, log=True)
    ((0.9, 1.4), (2.0, 2.2), (0.5, 20.0))
    """
    if log:
        exponents = range(floor(log10(low)), ceil(log10(high)) + 1)
        marks = [round(m * 10.0**e, 12 - e) for e in exponents for m in (1, 2, 5, 10)]
        below = [mark for mark in marks if mark <= low * (1 + 1e-9)]
        above = [mark for mark in marks if mark >= high * (1 - 1e-9)]
        return max(below), min(above)
    if high <= low:
        high = low + (abs(low) or 1.0) * 0.1
    rough = (high - low) / 6
    scale = 10.0 ** floor(log10(rough))
    # Counts have no halves: 12.5 is not a step of a run.
    multiples = (1, 2, 5, 10) if scale == 1.0 else (1, 2, 2.5, 5, 10)
    step = next(m * scale for m in multiples if m * scale >= rough * 0.999)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return round(first * step, 12), round(last * step, 12)
