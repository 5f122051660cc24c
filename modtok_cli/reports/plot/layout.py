"""Charts laid out as scenes, and written to files."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.reports.charts import (
    Chart,
    Curves,
    Dots,
    Heat,
    Mark,
    Panels,
    Spread,
    is_empty,
    styles_of,
)
from modtok_cli.reports.plot.scene import (
    BAND,
    FAINT,
    GRID,
    INK,
    Area,
    Label,
    Line,
    Scene,
    colour_of,
    log_ticks,
    marker,
    rectangle,
    share_of,
    stacked,
    text_width,
    tick_text,
    ticks,
    wrapped,
)
from modtok_cli.reports.plot.svg import to_svg

WIDTH = 760.0


EDGE = 12.0
TITLE = 15.0
TEXT = 12.0
SMALL = 11.0


def begin(title: str, width: float, names: Mapping[str, int]) -> tuple[Scene, float]:
    """A scene with title and legend, and the y at which the drawing starts."""
    scene = Scene(width, 0.0, title)
    y = EDGE + TITLE
    for line in wrapped(title, width - 2 * EDGE, TITLE, bold=True):
        scene.add(Label((EDGE, y), line, TITLE, bold=True))
        y += TITLE + 5
    y = _legend(scene, names, y + 3) if names else y
    return scene, y


def _legend(scene: Scene, names: Mapping[str, int], y: float) -> float:
    x = EDGE
    for name, index in names.items():
        shown = shortened(name, scene.width - 2 * EDGE - 18, TEXT)
        needed = 18 + text_width(shown, TEXT) + 14
        if x > EDGE and x + needed > scene.width - EDGE + 14:
            x = EDGE
            y += TEXT + 7
        scene.add(marker(index, (x + 6, y - 4), 4.5), Label((x + 17, y), shown, TEXT))
        x += needed
    return y + TEXT + 4


def shortened(text: str, width: float, size: float) -> str:
    """Shorten a text in its middle to fit; both ends of a path are informative."""
    if text_width(text, size) <= width:
        return text
    keep = len(text)
    while keep > 4:
        keep -= 1
        cut = f"{text[: keep // 2]}…{text[len(text) - (keep - keep // 2) :]}"
        if text_width(cut, size) <= width:
            return cut
    return text[:4]


def finish(scene: Scene, y: float, note: str) -> Scene:
    """Add the note below a drawing that ends at `y`, and set the scene's height."""
    for line in wrapped(note, scene.width - 2 * EDGE, SMALL):
        y += SMALL + 4
        scene.add(Label((EDGE, y), line, SMALL, colour=FAINT))
    scene.height = y + EDGE
    return scene


class Axis:
    """Scale from values to pixels with round tick values; `log` for positive values.

    `whole`: ticks are whole numbers.
    """

    def __init__(
        self,
        low: float,
        high: float,
        start: float,
        stop: float,
        *,
        log: bool = False,
        whole: bool = False,
    ) -> None:
        room = abs(stop - start)
        most = max(2, min(8, int(room / 58)))
        self.ticks = log_ticks(low, high, most) if log else ticks(low, high, most, whole=whole)
        self.low, self.high = self.ticks[0], self.ticks[-1]
        self._start, self._stop = start, stop
        self._log = log

    def __call__(self, value: float) -> float:
        """Pixel of a value."""
        share = share_of(value, self.low, self.high, log=self._log)
        return self._start + share * (self._stop - self._start)

    def text(self, value: float) -> str:
        """Label of a tick."""
        if self._log:
            return f"{value:g}"
        return tick_text(value, self.ticks[1] - self.ticks[0])


def x_axis(scene: Scene, axis: Axis, top: float, bottom: float, name: str, both: bool) -> float:
    """Grid lines, tick labels below (and above if `both`) and the axis name; returns the new y."""
    for tick in axis.ticks:
        x = axis(tick)
        scene.add(Line([(x, top), (x, bottom)], GRID))
        scene.add(Label((x, bottom + SMALL + 3), axis.text(tick), SMALL, "middle", FAINT))
        if both:
            scene.add(Label((x, top - 5), axis.text(tick), SMALL, "middle", FAINT))
    middle = (axis(axis.low) + axis(axis.high)) / 2
    y = bottom + SMALL + 6
    for line in wrapped(name, axis(axis.high) - axis(axis.low) + 40, TEXT):
        y += TEXT + 2
        scene.add(Label((middle, y), line, TEXT, "middle", INK))
    return y + 2


# Series of one row are offset vertically, so that equal values stay visible.
_DODGE = 4.6
_LANE = 15.0


def lay_dots(chart: Dots, width: float) -> Scene:
    """Cleveland dot plot with ranges as bars behind the dots."""
    styles = styles_of(chart)
    names = list(styles)
    scene, y = begin(chart.title, width, styles)
    values = [
        number
        for marks in chart.series.values()
        for mark in marks.values()
        for number in (mark.value, mark.low, mark.high)
        if number is not None
    ]
    height = max(19.0, 9.0 + _DODGE * len(names))
    axis, top, _, end = _rows(scene, chart, values, y, height)
    for row_index, row in enumerate(chart.rows):
        centre = top + (row_index + 0.5) * height
        for index, name in enumerate(names):
            mark = chart.series[name].get(row)
            if mark is None:
                continue
            at = centre + (index - (len(names) - 1) / 2) * _DODGE
            if mark.low is not None and mark.high is not None:
                ends = [(axis(mark.low), at), (axis(mark.high), at)]
                scene.add(Line(ends, colour_of(styles[name]), 2.4))
            tip = f"{row}, {name}: {_value_tip(mark)}"
            scene.add(marker(styles[name], (axis(mark.value), at), 4.0, tip))
    return finish(scene, end, chart.note)


def _value_tip(mark: Mark) -> str:
    if mark.low is None or mark.high is None:
        return f"{mark.value:.3f}"
    return f"{mark.value:.3f} ({mark.low:.3f} to {mark.high:.3f})"


def lay_spread(chart: Spread, width: float) -> Scene:
    """Density per row and series, with quartiles and median."""
    styles = styles_of(chart)
    names = list(styles)
    scene, y = begin(chart.title, width, styles)
    values = [v for rows in chart.series.values() for many in rows.values() for v in many]
    height = 7.0 + _LANE * len(names)
    axis, top, _, end = _rows(scene, chart, values, y, height)
    for row_index, row in enumerate(chart.rows):
        first = top + row_index * height + 3.5
        for index, name in enumerate(names):
            many = chart.series[name].get(row, ())
            if len(many):
                tip = _tip(row, name, many)
                _violin(scene, axis, many, first + (index + 0.5) * _LANE, styles[name], tip)
    return finish(scene, end, chart.note)


def _tip(row: str, name: str, many: Sequence[float]) -> str:
    low, middle, high = np.min(many), np.median(many), np.max(many)
    return f"{row}, {name}: median {middle:.3f}, {low:.3f} to {high:.3f}, n = {len(many)}"


def density(values: Sequence[float], low: float, high: float, cells: int = 160) -> np.ndarray:
    """Smoothed histogram over [low, high] with maximum 1; shape (cells,).

    A Gaussian kernel by Silverman's rule, at least one cell wide, so that a single value is
    visible.
    """
    data = np.asarray(values, dtype=np.float64)
    cell = (high - low) / cells
    quartiles = np.percentile(data, [25, 75])
    spread = min(float(data.std()), float(quartiles[1] - quartiles[0]) / 1.34) or float(data.std())
    width = max(0.9 * spread * len(data) ** -0.2, 1.2 * cell)
    middles = low + cell * (np.arange(cells) + 0.5)
    heights = np.exp(-0.5 * ((middles[:, None] - data[None, :]) / width) ** 2).sum(axis=1)
    return np.asarray(heights / heights.max())


def _violin(
    scene: Scene, axis: Axis, values: Sequence[float], y: float, index: int, tip: str
) -> None:
    colour = colour_of(index)
    heights = density(values, axis.low, axis.high)
    step = (axis.high - axis.low) / len(heights)
    places = axis.low + step * (np.arange(len(heights)) + 0.5)
    # Truncated at the extremes: smoothing would extend to values that do not occur.
    inside = (places > min(values) - step) & (places < max(values) + step)
    shown = np.flatnonzero((heights > 0.01) & inside)
    xs = [axis(float(place)) for place in places]
    half = _LANE / 2 - 1
    for part in np.split(shown, np.flatnonzero(np.diff(shown) > 1) + 1):
        upper = [(xs[i], y - half * heights[i]) for i in part]
        lower = [(xs[i], y + half * heights[i]) for i in part[::-1]]
        scene.add(Area([*upper, *lower], colour, 0.4, tip))
    low, first, middle, third, high = np.percentile(values, [0, 25, 50, 75, 100])
    scene.add(Line([(axis(float(low)), y), (axis(float(high)), y)], colour, 1.0))
    scene.add(Line([(axis(float(first)), y), (axis(float(third)), y)], colour, 3.4))
    scene.add(marker(index, (axis(float(middle)), y), 3.2, tip))


def _rows(
    scene: Scene, chart: Dots | Spread, values: Sequence[float], y: float, height: float
) -> tuple[Axis, float, float, float]:
    """Bands, row names and the axis; returns axis, top, bottom, and the y below everything."""
    label = max((text_width(row, TEXT) for row in chart.rows), default=10.0) + 8
    left = EDGE + label
    both = len(chart.rows) * height > 320
    top = y + (SMALL + 4 if both else 0)
    bottom = top + height * len(chart.rows)
    shown = [*values, *([chart.reference] if chart.reference is not None else [])] or [0.0, 1.0]
    log = isinstance(chart, Dots) and chart.log
    axis = Axis(min(shown), max(shown), left + 6, scene.width - EDGE - 14, log=log)
    for index, row in enumerate(chart.rows):
        at = top + index * height
        if index % 2 == 0:
            box = rectangle(EDGE, at, scene.width - 2 * EDGE, height)
            scene.add(Area(box, BAND))
        scene.add(Label((left - 4, at + height / 2 + 4.2), row, TEXT, "end"))
    name = f"{chart.axis}; logarithmic" if log else chart.axis
    end = x_axis(scene, axis, top, bottom, name, both)
    if chart.reference is not None:
        x = axis(chart.reference)
        scene.add(Line([(x, top), (x, bottom)], INK, 1.2, (4.0, 3.0)))
    return axis, top, bottom, end


MOST_TOGETHER = 7
"""Series whose colors differ; more are drawn in a panel each, with the others in grey."""

_PANEL, _LARGE_PANEL = 150.0, 250.0


def lay_curves(chart: Curves, width: float) -> Scene:
    """Curves with a marker at every point; of many series, a small panel for each."""
    styles = styles_of(chart)
    if len(styles) > MOST_TOGETHER:
        order = sorted(chart.series, key=lambda name: (-chart.series[name][-1][1], name))
        panels = dict.fromkeys(order, chart.series)
        shown = {name: [name] for name in order}
        together = (chart.title, chart.x_axis, chart.y_axis, panels, shown, chart.from_zero)
        return lay_panels(Panels(*together, chart.note, dict.fromkeys(order, 0)), width)
    scene, y = begin(chart.title, width, styles)
    points = [point for curve in chart.series.values() for point in curve]
    xs = [x for x, _ in points] + ([0.0] if chart.from_zero else [])
    ys = [y_ for _, y_ in points] + ([0.0] if chart.from_zero else [])
    height = min(320.0, 0.62 * width)
    top = y + TEXT + 8
    bottom = top + height
    vertical = Axis(min(ys), max(ys), bottom, top)
    label = max(text_width(vertical.text(tick), SMALL) for tick in vertical.ticks)
    left = EDGE + label + 8
    horizontal = Axis(min(xs), max(xs), left, width - EDGE - 16, whole=_are_whole(xs))
    scene.add(Label((EDGE, top - 10), chart.y_axis, TEXT))
    for tick in vertical.ticks:
        at = vertical(tick)
        scene.add(Line([(left, at), (width - EDGE - 16, at)], GRID))
        scene.add(Label((left - 6, at + 4), vertical.text(tick), SMALL, "end", FAINT))
    end = x_axis(scene, horizontal, top, bottom, chart.x_axis, both=False)
    for name, index in styles.items():
        curve = [(horizontal(x), vertical(y_)) for x, y_ in chart.series[name]]
        scene.add(Line(curve, colour_of(index), 2.0))
        for place, (x, y_) in zip(curve, chart.series[name], strict=True):
            scene.add(marker(index, place, 3.6, f"{name}: {y_:,.5g} at {x:,.5g}"))
    return finish(scene, end, chart.note)


def _are_whole(values: Sequence[float]) -> bool:
    return all(float(value).is_integer() for value in values)


def lay_panels(chart: Panels, width: float) -> Scene:
    """Small charts with common axes. A legend only where a panel has several series in color."""
    shown = {name: list(chart.shown.get(name, curves)) for name, curves in chart.panels.items()}
    several = max(map(len, shown.values())) > 1
    styles = styles_of(chart)
    scene, y = begin(chart.title, width, styles if several else {})
    points = [p for curves in chart.panels.values() for curve in curves.values() for p in curve]
    zero = [0.0] if chart.from_zero else []
    xs, ys = [*(x for x, _ in points), *zero], [*(y_ for _, y_ in points), *zero]
    grey = (
        "; grey: the others" if any(shown[name] != [*chart.panels[name]] for name in shown) else ""
    )
    scene.add(Label((EDGE, y + 4), f"{chart.y_axis}, by {chart.x_axis}{grey}", TEXT))
    label = text_width("0.000", SMALL)
    room = width - 2 * EDGE
    columns = max(1, min(len(shown), int(room / (_LARGE_PANEL if several else _PANEL))))
    cell = room / columns
    height = min(0.62 * cell, 220.0)
    row_height = height + TEXT + SMALL + 22
    for place, (name, curves) in enumerate(chart.panels.items()):
        left = EDGE + place % columns * cell + label
        top = y + 16 + place // columns * row_height + TEXT + 6
        right, bottom = left + cell - label - 10, top + height
        across = Axis(min(xs), max(xs), left, right, whole=_are_whole(xs))
        down = Axis(min(ys), max(ys), bottom, top)
        title = shortened(name, right - left, TEXT)
        scene.add(Label((left, top - 5), title, TEXT, bold=True))
        for tick in down.ticks if several else (down.low, down.high):
            at = down(tick)
            scene.add(Line([(left, at), (right, at)], GRID))
            scene.add(Label((left - 4, at + 4), down.text(tick), SMALL, "end", FAINT))
        last = Label((right, bottom + SMALL + 3), across.text(across.high), SMALL, "end", FAINT)
        scene.add(Label((left, bottom + SMALL + 3), across.text(across.low), SMALL, colour=FAINT))
        scene.add(last)
        for other, curve in curves.items():
            if other not in shown[name]:
                scene.add(Line([(across(a), down(b)) for a, b in curve], FAINT, 0.6))
        for own in shown[name]:
            curve = curves.get(own, ())
            pixels = [(across(a), down(b)) for a, b in curve]
            scene.add(Line(pixels, colour_of(styles[own]), 2.0))
            for spot, (a, b) in zip(pixels, curve, strict=True):
                tip = f"{name}, {own}" if several else own
                scene.add(marker(styles[own], spot, 2.4, f"{tip}: {b:,.5g} at {a:,.5g}"))
    rows = -(-len(shown) // columns)
    return finish(scene, y + 16 + rows * row_height, chart.note)


# One hue from light to dark: readable in greyscale and with color vision deficiency.
_STOPS = ("#f4f8fc", "#cfe1f2", "#94c4df", "#4b97c9", "#1764ab", "#08306b")


def shade(share: float) -> str:
    """Color for a fraction of the largest value, 0 to 1."""
    place = min(max(share, 0.0), 1.0) * (len(_STOPS) - 1)
    index = min(int(place), len(_STOPS) - 2)
    rest = place - index
    pair = [
        [int(stop[i : i + 2], 16) for i in (1, 3, 5)] for stop in (_STOPS[index], _STOPS[index + 1])
    ]
    mixed = [round(a + rest * (b - a)) for a, b in zip(*pair, strict=True)]
    return "#" + "".join(f"{part:02x}" for part in mixed)


NARROWEST = 12.0
"""Cells beside names; where they would be narrower, codes leave them more room."""


def lay_heat(chart: Heat, width: float) -> Scene:
    """One square per cell, names on the left and above, the color scale below.

    In a narrow chart of many languages their codes, and which names they have below.
    """
    scene, y = begin(chart.title, width, {})
    left, cell = _room(chart.rows, len(chart.columns), width)
    short = chart.short if cell < NARROWEST else {}
    if short:
        left, cell = _room([short.get(row, row) for row in chart.rows], len(chart.columns), width)
    size = min(TEXT, max(8.0, cell * (0.85 if short else 0.62)))
    # Names longer than a cell stand upright.
    names = [short.get(column, column) for column in chart.columns]
    longest = max((text_width(name, size) for name in names), default=0.0)
    upright = longest > cell
    room = longest if upright else size
    top = y + TEXT + room + 12
    scene.add(Label((left, y + 8), chart.column_axis, TEXT))
    for index, column in enumerate(names):
        x = left + (index + 0.5) * cell
        if upright:
            at_foot = (x + 0.35 * size, top - 5)
            scene.add(Label(at_foot, column, size, vertical=True))
        else:
            scene.add(Label((x, top - 5), column, size, "middle"))
    largest = ticks(0.0, max(chart.values.values(), default=0.0) or 1.0)[-1]
    for row_index, row in enumerate(chart.rows):
        at = top + row_index * cell
        place = (left - 5, at + cell / 2 + size * 0.35)
        scene.add(Label(place, short.get(row, row), min(TEXT, size + 1), "end"))
        for index, column in enumerate(chart.columns):
            value = chart.values.get((row, column))
            box = rectangle(left + index * cell, at, cell - 1, cell - 1)
            if value is None:
                scene.add(Line([*box, box[0]], GRID, 0.6))
                continue
            tip = f"{row}, {column}: {value:.3f}"
            scene.add(Area(box, shade(value / largest), tip=tip))
            if cell >= 21:
                colour = "#ffffff" if value / largest > 0.55 else INK
                at_text = (left + (index + 0.5) * cell - 0.5, at + cell / 2 + 3)
                scene.add(Label(at_text, cell_text(value, largest), 8.8, "middle", colour))
    bottom = top + cell * len(chart.rows)
    middle = top + cell * len(chart.rows) / 2
    scene.add(Label((EDGE + TEXT - 2, middle), chart.row_axis, TEXT, "middle", vertical=True))
    y = _scale(scene, chart.axis, left, bottom + 14, largest)
    if short:
        codes = {short[name]: name for name in (*chart.rows, *chart.columns) if name in short}
        listed = ", ".join(f"{code} {name}" for code, name in sorted(codes.items()))
        y += 6
        for line in wrapped(listed, width - 2 * EDGE, SMALL):
            y += SMALL + 3
            scene.add(Label((EDGE, y), line, SMALL, "start", FAINT))
    return finish(scene, y, chart.note)


def _room(rows: Sequence[str], columns: int, width: float) -> tuple[float, float]:
    """Where cells begin beside these names, and their size."""
    left = EDGE + max(text_width(row, TEXT) for row in rows) + 8 + TEXT + 4
    return left, min(30.0, (width - EDGE - left) / max(1, columns))


def _scale(scene: Scene, axis: str, left: float, y: float, largest: float) -> float:
    room = min(160.0, scene.width - left - EDGE - 60)
    steps = 32
    for i in range(steps):
        box = rectangle(left + i * room / steps, y, room / steps + 0.5, 10)
        scene.add(Area(box, shade((i + 0.5) / steps)))
    scene.add(Label((left, y + 10 + SMALL + 2), "0", SMALL, "start", FAINT))
    scene.add(Label((left + room, y + 10 + SMALL + 2), f"{largest:g}", SMALL, "middle", FAINT))
    y += 2 * SMALL + 6
    for line in wrapped(axis, scene.width - left - EDGE, TEXT):
        y += TEXT + 2
        scene.add(Label((left, y), line, TEXT))
    return y + 2


def cell_text(value: float, largest: float) -> str:
    """Label of a cell, as precise as fits.

    >>> cell_text(48.46, 48.46), cell_text(0.28, 2.95)
    ('48', '.28')
    """
    return f"{value:.0f}" if largest >= 10 else f"{value:.2f}".removeprefix("0")


def scene_of(chart: Chart, width: float = WIDTH) -> Scene:
    """Lay out a chart at `width` pixels; the height follows."""
    if isinstance(chart, Dots):
        return lay_dots(chart, width)
    if isinstance(chart, Spread):
        return lay_spread(chart, width)
    if isinstance(chart, Curves):
        return lay_curves(chart, width)
    if isinstance(chart, Panels):
        return lay_panels(chart, width)
    return lay_heat(chart, width)


def draw(charts: Sequence[Chart], kind: str) -> bytes:
    """All charts stacked in one picture, ".svg" or ".png".

    Raises:
        UsageError: there is nothing to plot.
        UsageError: matplotlib is needed for a PNG and is not installed.
    """
    shown = [chart for chart in charts if not is_empty(chart)]
    if not shown:
        raise UsageError("nothing to plot: no row has a value for the plot", where="--plot")
    scene = stacked([scene_of(chart) for chart in shown])
    if kind == ".png":
        from modtok_cli.reports.plot.png import to_png

        return to_png(scene)
    return to_svg(scene).encode()


def write_plot(charts: Sequence[Chart], path: Path) -> None:
    """Write the picture, whole or not at all."""
    write_bytes(path, draw(charts, path.suffix.lower()))
