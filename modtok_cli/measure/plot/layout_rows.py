"""Charts with one row per language: dots, ranges and distributions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from modtok_cli.measure.plot.charts import Dots, Mark, Spread, styles_of
from modtok_cli.measure.plot.frame import EDGE, SMALL, TEXT, Axis, begin, finish, x_axis
from modtok_cli.measure.plot.scene import (
    BAND,
    INK,
    Area,
    Label,
    Line,
    Scene,
    colour_of,
    marker,
    rectangle,
    text_width,
)

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
