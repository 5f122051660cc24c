"""Charts laid out as scenes, and written to files."""

from collections.abc import Sequence
from pathlib import Path

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.reports.charts import (
    Chart,
    Curves,
    Dots,
    Mark,
    Panels,
    is_empty,
    styles_of,
)
from modtok_cli.reports.plot.frame import EDGE, SMALL, TEXT, Axis, begin, finish, shortened, x_axis
from modtok_cli.reports.plot.heat import lay_heat
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
    marker,
    rectangle,
    stacked,
    text_width,
)
from modtok_cli.reports.plot.svg import to_svg

WIDTH = 760.0

# Series of one row are offset vertically, so that equal values stay visible.
_DODGE = 4.6


def lay_dots(chart: Dots, width: float) -> Scene:
    """Cleveland dot plot with ranges as bars behind the dots."""
    styles = styles_of(chart)
    names = list(styles)
    scene, y = begin(chart.title, width, styles)
    height = max(19.0, 9.0 + _DODGE * len(names))
    axis, top, _, end = _rows(scene, chart, chart.numbers, y, height)
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


def _rows(
    scene: Scene, chart: Dots, values: Sequence[float], y: float, height: float
) -> tuple[Axis, float, float, float]:
    """Bands, row names and the axis; returns axis, top, bottom, and the y below everything."""
    label = max((text_width(row, TEXT) for row in chart.rows), default=10.0) + 8
    left = EDGE + label
    both = len(chart.rows) * height > 320
    top = y + (SMALL + 4 if both else 0)
    bottom = top + height * len(chart.rows)
    shown = [*values, *([chart.reference] if chart.reference is not None else [])] or [0.0, 1.0]
    axis = Axis(min(shown), max(shown), left + 6, scene.width - EDGE - 14, log=chart.log)
    for index, row in enumerate(chart.rows):
        at = top + index * height
        if index % 2 == 0:
            box = rectangle(EDGE, at, scene.width - 2 * EDGE, height)
            scene.add(Area(box, BAND))
        scene.add(Label((left - 4, at + height / 2 + 4.2), row, TEXT, "end"))
    name = f"{chart.axis}; logarithmic" if chart.log else chart.axis
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
        together = (chart.title, chart.x_axis, chart.y_axis, panels, shown)
        return lay_panels(Panels(*together, chart.note, dict.fromkeys(order, 0)), width)
    scene, y = begin(chart.title, width, styles)
    points = [point for curve in chart.series.values() for point in curve]
    xs = [x for x, _ in points]
    ys = [y_ for _, y_ in points]
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
    xs, ys = [x for x, _ in points], [y_ for _, y_ in points]
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
        free, last = left, right - text_width(across.text(across.high), SMALL)
        for tick in across.ticks if several else (across.low, across.high):
            half = text_width(across.text(tick), SMALL) / 2
            at = min(max(across(tick), left + half), right - half)
            if tick == across.high or free <= at - half <= last - 2 * half - 6:
                under = (at, bottom + SMALL + 3)
                scene.add(Label(under, across.text(tick), SMALL, "middle", FAINT))
                free = at + half + 6
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


def scene_of(chart: Chart, width: float = WIDTH) -> Scene:
    """Lay out a chart at `width` pixels; the height follows."""
    if isinstance(chart, Dots):
        return lay_dots(chart, width)
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
