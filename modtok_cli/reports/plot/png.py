"""Write a scene as PNG, with matplotlib used only for drawing, so that it looks like the SVG."""

from io import BytesIO

from modtok_cli.base.extras import require
from modtok_cli.reports.plot.scene import Area, Disc, Label, Line, Scene

_PIXELS_PER_INCH = 100.0
_SCALE = 2.0
"""Pixels for each pixel of the scene."""


def to_png(scene: Scene) -> bytes:
    """Picture of a scene, twice as large.

    Raises:
        UsageError: matplotlib is not installed.
    """
    require("a plot in .png, unlike .svg,", plot=("matplotlib",))
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle, Polygon

    inches = (scene.width / _PIXELS_PER_INCH, scene.height / _PIXELS_PER_INCH)
    figure = Figure(figsize=inches, dpi=_PIXELS_PER_INCH * _SCALE, facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(0, scene.width)
    axes.set_ylim(scene.height, 0)
    axes.axis("off")
    points = 72 / _PIXELS_PER_INCH
    for order, shape in enumerate(scene.shapes):
        if isinstance(shape, Line):
            line = Line2D(
                [x for x, _ in shape.points],
                [y for _, y in shape.points],
                color=shape.colour,
                linewidth=shape.width * points,
                zorder=order,
            )
            if shape.dash:
                line.set_dashes([length / shape.width for length in shape.dash])
            axes.add_line(line)
        elif isinstance(shape, Area):
            axes.add_patch(
                Polygon(
                    list(shape.points),
                    facecolor=shape.fill,
                    edgecolor="none",
                    alpha=shape.opacity,
                    zorder=order,
                )
            )
        elif isinstance(shape, Disc):
            axes.add_patch(
                Circle(
                    shape.centre, shape.radius, facecolor=shape.fill, edgecolor="none", zorder=order
                )
            )
        else:
            _write(axes, shape, points, order)
    out = BytesIO()
    # Without the entry "Software" the file does not depend on matplotlib's version.
    figure.savefig(out, format="png", metadata={"Software": None})
    return out.getvalue()


def _write(axes: object, label: Label, points: float, order: int) -> None:
    across = {"start": "left", "middle": "center", "end": "right"}[label.anchor]
    axes.text(  # type: ignore[attr-defined]
        *label.at,
        # A dollar sign would start math mode.
        label.text.replace("$", r"\$"),
        fontsize=label.size * points,
        color=label.colour,
        ha=across if not label.vertical else "center" if across == "center" else "right",
        va="baseline" if not label.vertical else "center" if across == "center" else "bottom",
        fontweight="bold" if label.bold else "normal",
        rotation=90 if label.vertical else 0,
        family="DejaVu Sans",
        zorder=order,
    )
