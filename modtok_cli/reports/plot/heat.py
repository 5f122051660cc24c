"""A matrix as a scene: one square per cell, one hue."""

from collections.abc import Sequence

from modtok_cli.reports.charts import Heat
from modtok_cli.reports.plot.frame import EDGE, SMALL, TEXT, begin, finish
from modtok_cli.reports.plot.scene import (
    FAINT,
    GRID,
    INK,
    Area,
    Label,
    Line,
    Scene,
    rectangle,
    text_width,
    ticks,
    wrapped,
)

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
