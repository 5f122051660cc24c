"""Charts drawn by matplotlib as SVG or PNG: the same bytes each time, with text as text."""

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from itertools import count
from math import ceil, nan
from pathlib import Path
from textwrap import fill
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.extras import require
from modtok_cli.base.files import write_bytes
from modtok_cli.reports.charts import MOST_TOGETHER, Chart, Curves, Dots, Heat, is_empty
from modtok_cli.reports.tables import display_name

WIDTH = 760.0
"""Pixels, of which an inch has 96; a PNG has twice as many."""

# Okabe and Ito's colors, distinguishable with color vision deficiency, without the light yellow
# that is invisible on paper. Color and marker together are unique for the first 49 series.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d")
_MARKERS = "os^DvPd"
STYLE = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same layout on every machine
    "font.size": 9,
    "text.color": "#1a1a1a",
    "text.parse_math": False,  # a name may hold dollar signs
    "axes.axisbelow": True,
    **{f"axes.spines.{side}": False for side in ("left", "right", "top", "bottom")},
    "grid.color": "#d4d4d4",
    "xtick.labelsize": 8.3,
    "ytick.labelsize": 9,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "legend.frameon": False,
    "legend.columnspacing": 1.2,
    "legend.handletextpad": 0.3,
    "svg.fonttype": "none",
    "svg.hashsalt": "modtok",
}
_DODGE = 4.6
"""Pixels between the series of a row, so that equal values stay visible."""
_LINE = 17
_LEGIBLE = 21
"""Cells of a matrix that are as wide show their values."""


def draw(charts: Sequence[Chart], kind: str, styles: Mapping[str, int] = {}) -> bytes:
    """All charts, one below the other, in one picture: ".svg" or ".png".

    `styles`: series of `Dots` → index of its color and marker; others get free ones in order.

    Raises:
        UsageError: there is nothing to plot, or matplotlib is not installed.
    """
    shown = [chart for chart in charts if not is_empty(chart)]
    if not shown:
        raise UsageError("nothing to plot: no row has a value for the plot", where="--plot")
    require("a plot in a file, unlike --plot -,", plot=("matplotlib",))
    # Advice on its caches, as on a read-only system.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    from matplotlib import style
    from matplotlib.figure import Figure

    plans = [_plan(chart, styles) for chart in shown]
    heights = [height for height, _ in plans]
    out = BytesIO()
    none = ("Date", "Creator", "Format", "Type") if kind == ".svg" else ("Software",)
    with style.context(["default", STYLE]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # viewers of an SVG have more fonts
        figure = Figure((WIDTH / 96, sum(heights) / 96), 192, layout="constrained")
        parts = figure.subfigures(len(plans), squeeze=False, height_ratios=heights)
        for (part,), (_, drawn) in zip(parts, plans, strict=True):
            drawn(part)
        figure.savefig(out, format=kind[1:], metadata=dict.fromkeys(none))
    return out.getvalue()


def write_plot(charts: Sequence[Chart], path: Path) -> None:
    """Write the picture, whole or not at all."""
    write_bytes(path, draw(charts, path.suffix.lower()))


def _plan(chart: Chart, styles: Mapping[str, int]) -> tuple[float, Callable[[Any], None]]:
    """Height in pixels, and what draws into a figure."""
    if isinstance(chart, Heat):
        return _heat(chart)
    return _dots(chart, styles) if isinstance(chart, Dots) else _curves(chart)


def _clean(text: str, most: float = 1000) -> str:
    """Text for XML, which has no control characters; at most so long, shortened in its middle."""
    text = "".join(c if c.isprintable() else "\ufffd" for c in text)
    half = max(2, int(most) // 2)
    return text if len(text) <= most else f"{text[:half]}…{text[1 - half :]}"


def _wrapped(*lines: str) -> str:
    return "\n".join(fill(_clean(line), 90) for line in lines if line)


def _head(title: str, styles: Mapping[str, int]) -> tuple[float, Any]:
    """Height of title and legend, and what draws them."""
    title = fill(_clean(title), 80)
    names = [_clean(name, 90) for name in styles]
    columns = max(1, int(WIDTH / (7.2 * max(map(len, names), default=0) + 40)))
    lines = title.count("\n") + 1 + ceil(len(names) / columns)

    def head(part: Any) -> None:
        from matplotlib.lines import Line2D

        marks = [Line2D([], [], **_look(index)) for index in styles.values()]
        part.legend(
            handles=marks or [Line2D([], [], linestyle="")], labels=names or [""],
            title=title, title_fontproperties={"weight": "bold", "size": 11}, alignment="left",
            loc="outside upper left", ncols=columns, borderpad=0.2,
        )  # fmt: skip

    return _LINE * lines + 24, head


def _look(index: int) -> dict[str, Any]:
    marker = _MARKERS[(index + index // len(COLOURS)) % len(_MARKERS)]
    color = COLOURS[index % len(COLOURS)]
    return {"color": color, "marker": marker, "linestyle": "", "markersize": 5.5, "mew": 0}


def _dots(chart: Dots, given: Mapping[str, int]) -> tuple[float, Callable[[Any], None]]:
    """Cleveland dot plot with ranges as bars behind the dots."""
    taken = {given[name] for name in chart.series if name in given}
    free = (index for index in count() if index not in taken)
    styles = {name: given[name] if name in given else next(free) for name in chart.series}
    above, head = _head(chart.title, styles)
    row = max(19.0, 9.0 + _DODGE * len(styles))
    name = f"{chart.axis}; logarithmic" if chart.log else chart.axis
    below = _wrapped(name, chart.note)
    tall = len(chart.rows) * row > 320

    def drawn(part: Any) -> None:
        from matplotlib.ticker import LogLocator, NullLocator

        head(part)
        axes = part.subplots()
        if chart.log:
            axes.set_xscale("log")
            wide = max(chart.numbers) > 1000 * min(chart.numbers)  # more labels would overlap
            axes.xaxis.set_major_locator(LogLocator(subs=(1,) if wide else (1, 2, 5)))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter("{x:g}")
        for index in range(0, len(chart.rows), 2):
            axes.axhspan(index - 0.5, index + 0.5, color="#f3f3f3", linewidth=0)
        for place, (series, index) in enumerate(styles.items()):
            look, marks = _look(index), chart.series[series]
            shift = (place - (len(styles) - 1) / 2) * _DODGE / row
            there = [(at + shift, marks[key]) for at, key in enumerate(chart.rows) if key in marks]
            ranges = [(y, m.low, m.high) for y, m in there if None not in (m.low, m.high)]
            if ranges:
                axes.hlines(*zip(*ranges, strict=True), color=look["color"], linewidth=1.8)
            axes.plot([mark.value for _, mark in there], [y for y, _ in there], **look)
        if chart.reference is not None:
            axes.axvline(chart.reference, color="#1a1a1a", linewidth=0.9, dashes=(3, 2))
        labels = [_clean(each, 38) for each in chart.rows]
        axes.set_yticks(range(len(labels)), labels)
        axes.set_ylim(len(labels) - 0.5, -0.5)
        axes.grid(axis="x")
        axes.tick_params(labeltop=tall)
        axes.set_xlabel(below)

    return above + row * len(chart.rows) + 24 + _LINE * (1 + tall + below.count("\n")), drawn


def _curves(chart: Curves) -> tuple[float, Callable[[Any], None]]:
    """Small charts with common axes.

    Of many series in one panel, each has a panel, with the others in grey; in several panels, the
    best and the worst have a color.
    """
    panels, series = chart.panels, sorted(chart.series, key=lambda name: chart.series[name])
    styles = {name: index for index, name in enumerate(chart.series)}
    grey, several = len(series) > MOST_TOGETHER, True
    if grey and "" in panels:
        panels, several = dict.fromkeys(reversed(series), panels[""]), False
    elif grey:
        styles = {name: at for at, name in enumerate(sorted((series[0], series[-1])))}
    above, head = _head(chart.title, styles if several else {})
    columns = max(1, min(len(panels), int((WIDTH - 40) / (230 if several else 140))))
    rows = ceil(len(panels) / columns)
    below = _wrapped(chart.x_axis + "; grey: the others" * grey)
    height = min(0.62 * WIDTH / columns, 320.0 if len(panels) == 1 else 220.0) + 2 * _LINE + 8
    xs = {x for curves in panels.values() for curve in curves.values() for x, _ in curve}

    def drawn(part: Any) -> None:
        from matplotlib.ticker import MaxNLocator

        head(part)
        grid = part.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for (name, curves), axes in zip(panels.items(), grid.flat, strict=False):
            own = styles if several else {name: 0}
            for each in sorted(curves, key=own.__contains__):  # color above grey
                size = 5 if len(panels) == 1 else 3
                look = {"color": "#a0a0a0", "linewidth": 0.6}
                if each in own:
                    look = _look(own[each]) | {"linestyle": "-", "markersize": size}
                axes.plot(*zip(*curves[each], strict=True), **look)
            axes.set_title(_clean(name, WIDTH / columns / 8), size=9, weight="bold", loc="left")
            axes.grid()
        for place, axes in enumerate(grid.flat):
            axes.tick_params(labelbottom=place + columns >= len(panels), labelsize=8)
            if place >= len(panels):
                axes.remove()
        # Steps are whole numbers, and so are their ticks.
        whole = all(float(x).is_integer() for x in xs)
        ticks = MaxNLocator("auto" if several else 2, integer=whole, steps=[1, 2, 2.5, 5, 10])
        grid[0, 0].xaxis.set_major_locator(ticks)
        part.supxlabel(below, size=9)
        part.supylabel(_clean(chart.y_axis), size=9)

    return above + height * rows + _LINE * (2 + below.count("\n")), drawn


def _heat(chart: Heat) -> tuple[float, Callable[[Any], None]]:
    """One square per cell, names on the left and above, the color scale below."""
    above, head = _head(chart.title, {})
    rows, columns = (
        [_clean(display_name(code), 38) for code in codes] for codes in (chart.rows, chart.columns)
    )
    wide = (WIDTH - 50 - 7 * max(map(len, rows))) / len(columns)
    cell = min(30.0, wide)
    below = _wrapped(chart.axis)
    upright = max(map(len, columns)) * 7 > wide
    largest = max(chart.values.values(), default=0.0) or 1.0

    def drawn(part: Any) -> None:
        head(part)
        axes = part.subplots()
        size = min(9.0, max(5.5, cell * 0.45))
        values = [[chart.values.get((a, b), nan) for b in chart.columns] for a in chart.rows]
        mesh = axes.pcolormesh(
            values, cmap="Blues", vmin=0, vmax=largest, edgecolors="white", linewidth=0.8
        )
        axes.set_facecolor("#e4e4e4")  # of missing cells
        axes.set_yticks([at + 0.5 for at in range(len(rows))], rows, size=size)
        axes.set_xticks([at + 0.5 for at in range(len(columns))], columns, size=size)
        axes.tick_params(axis="x", rotation=90 * upright)
        axes.xaxis.tick_top()
        axes.invert_yaxis()
        axes.set_ylabel(_clean(chart.row_axis))
        axes.set_xlabel(_clean(chart.column_axis))
        axes.xaxis.set_label_position("top")
        for (row, column), value in chart.values.items() if cell >= _LEGIBLE else ():
            axes.text(
                chart.columns.index(column) + 0.5, chart.rows.index(row) + 0.5,
                cell_text(value, largest), size=6.6, ha="center", va="center",
                color="white" if value / largest > 0.55 else "#1a1a1a",
            )  # fmt: skip
        bar = part.colorbar(mesh, ax=axes, location="bottom", shrink=0.4, aspect=20, pad=0.02)
        bar.set_label(below)

    names = 7 * max(map(len, columns)) if upright else _LINE
    height = above + names + cell * len(rows) + 50 + _LINE * (2 + below.count("\n"))
    return height, drawn


def cell_text(value: float, largest: float) -> str:
    """Label of a cell, as precise as fits.

    >>> cell_text(48.46, 48.46), cell_text(0.28, 2.95)
    ('48', '.28')
    """
    return f"{value:.0f}" if largest >= 10 else f"{value:.2f}".removeprefix("0")
