"""Write charts to files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from modtok_cli.base.errors import UsageError
from modtok_cli.measure.plot.charts import Chart, Curves, Dots, Heat, Spread, is_empty
from modtok_cli.measure.plot.scene import Scene, stacked

WIDTH = 760.0


def scene_of(chart: Chart, width: float = WIDTH) -> Scene:
    """Lay out a chart at `width` pixels; the height follows."""
    if isinstance(chart, Dots):
        from modtok_cli.measure.plot.layout_rows import lay_dots

        return lay_dots(chart, width)
    if isinstance(chart, Spread):
        from modtok_cli.measure.plot.layout_rows import lay_spread

        return lay_spread(chart, width)
    if isinstance(chart, Curves):
        from modtok_cli.measure.plot.layout_curves import lay_curves

        return lay_curves(chart, width)
    assert isinstance(chart, Heat)
    from modtok_cli.measure.plot.layout_heat import lay_heat

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
        from modtok_cli.measure.plot.png import to_png

        return to_png(scene)
    from modtok_cli.measure.plot.svg import to_svg

    return to_svg(scene).encode()


def write_plot(charts: Sequence[Chart], path: Path) -> None:
    """Write the picture, whole or not at all."""
    from modtok_cli.base.files import write_bytes

    write_bytes(path, draw(charts, path.suffix.lower()))
