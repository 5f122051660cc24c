"""Charts of curves over a number."""

from __future__ import annotations

from modtok_cli.measure.plot.charts import Curves
from modtok_cli.measure.plot.frame import EDGE, SMALL, TEXT, Axis, begin, finish, x_axis
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


def lay_curves(chart: Curves, width: float) -> Scene:
    """Curves with a marker at every point."""
    names = list(chart.series)
    scene, y = begin(chart.title, width, names)
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
    for index, name in enumerate(names):
        curve = [(horizontal(x), vertical(y_)) for x, y_ in chart.series[name]]
        scene.add(Line(curve, colour_of(index), 2.0))
        for place, (x, y_) in zip(curve, chart.series[name], strict=True):
            scene.add(marker(index, place, 3.6, f"{name}: {y_:,.5g} at {x:,.5g}"))
    return finish(scene, end, chart.note)
