"""Charts of curves over a number."""

from __future__ import annotations

from modtok_cli.measure.plot.charts import Curves, styles_of
from modtok_cli.measure.plot.frame import EDGE, SMALL, TEXT, Axis, begin, finish, shortened, x_axis
from modtok_cli.measure.plot.scene import (
    FAINT,
    GRID,
    Label,
    Line,
    Scene,
    colour_of,
    marker,
    text_width,
)

MOST_TOGETHER = 7
"""Series whose colors differ; more are drawn in a panel each, with the others in grey."""

_PANEL = 150.0


def lay_curves(chart: Curves, width: float) -> Scene:
    """Curves with a marker at every point; of many series, a small panel for each."""
    styles = styles_of(chart)
    if len(styles) > MOST_TOGETHER:
        return _panels(chart, width)
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
    horizontal = Axis(min(xs), max(xs), left, width - EDGE - 16)
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


def _panels(chart: Curves, width: float) -> Scene:
    """Small multiples with common axes; the panels with the largest last values come first."""
    scene, y = begin(chart.title, width, {})
    points = [point for curve in chart.series.values() for point in curve]
    zero = [0.0] if chart.from_zero else []
    xs, ys = [*(x for x, _ in points), *zero], [*(y_ for _, y_ in points), *zero]
    scene.add(Label((EDGE, y + 4), f"{chart.y_axis}, by {chart.x_axis}; grey: the others", TEXT))
    label = text_width("0.000", SMALL)
    columns = max(1, int((width - 2 * EDGE) / _PANEL))
    cell = (width - 2 * EDGE) / columns
    height = 0.62 * cell
    order = sorted(chart.series, key=lambda name: (-chart.series[name][-1][1], name))
    row_height = height + TEXT + SMALL + 22
    for place, name in enumerate(order):
        left = EDGE + place % columns * cell + label
        top = y + 16 + place // columns * row_height + TEXT + 6
        right, bottom = left + cell - label - 10, top + height
        across, down = Axis(min(xs), max(xs), left, right), Axis(min(ys), max(ys), bottom, top)
        shown = shortened(name, right - left, TEXT)
        scene.add(Label((left, top - 5), shown, TEXT, bold=True))
        for axis_ends in (down.low, down.high):
            at = down(axis_ends)
            scene.add(Line([(left, at), (right, at)], GRID))
            scene.add(Label((left - 4, at + 4), down.text(axis_ends), SMALL, "end", FAINT))
        last = Label((right, bottom + SMALL + 3), across.text(across.high), SMALL, "end", FAINT)
        scene.add(Label((left, bottom + SMALL + 3), across.text(across.low), SMALL, colour=FAINT))
        scene.add(last)
        for other in order:
            if other != name:
                scene.add(Line([(across(a), down(b)) for a, b in chart.series[other]], GRID))
        curve = [(across(a), down(b)) for a, b in chart.series[name]]
        scene.add(Line(curve, colour_of(0), 2.0))
        for spot, (a, b) in zip(curve, chart.series[name], strict=True):
            scene.add(marker(0, spot, 2.4, f"{name}: {b:,.5g} at {a:,.5g}"))
    rows = -(-len(order) // columns)
    return finish(scene, y + 16 + rows * row_height, chart.note)
