"""A drawing as a list of shapes in pixels, y downwards, between layouts and writers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor, log10

Point = tuple[float, float]

INK = "#1a1a1a"
FAINT = "#5a5a5a"
GRID = "#d4d4d4"
BAND = "#f3f3f3"
# Okabe and Ito's colors, distinguishable with color vision deficiency, without the light yellow
# that is invisible on paper. Each series also has its own shape.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#4d4d4d")
SHAPES = ("disc", "square", "triangle", "diamond", "wedge", "cross", "bar")


@dataclass(frozen=True)
class Line:
    """A polyline; `dash` is a pattern of lengths."""

    points: Sequence[Point]
    colour: str = INK
    width: float = 1.0
    dash: tuple[float, ...] = ()


@dataclass(frozen=True)
class Area:
    """A filled polygon; `tip` is its tooltip."""

    points: Sequence[Point]
    fill: str
    opacity: float = 1.0
    tip: str = ""


@dataclass(frozen=True)
class Disc:
    """A filled circle."""

    centre: Point
    radius: float
    fill: str
    tip: str = ""


@dataclass(frozen=True)
class Label:
    """Text with its baseline at `at`; `anchor` is start, middle or end; `vertical` rotates it."""

    at: Point
    text: str
    size: float = 12.0
    anchor: str = "start"
    colour: str = INK
    bold: bool = False
    vertical: bool = False


Shape = Line | Area | Disc | Label


@dataclass
class Scene:
    """Shapes within width × height; `title` and `description` are for screen readers."""

    width: float
    height: float
    title: str
    description: str = ""
    shapes: list[Shape] = field(default_factory=list)

    def add(self, *shapes: Shape) -> None:
        """Add shapes on top."""
        self.shapes.extend(shapes)


def moved(shape: Shape, dx: float, dy: float) -> Shape:
    """A shape moved by (dx, dy)."""
    if isinstance(shape, (Line, Area)):
        return replace(shape, points=[(x + dx, y + dy) for x, y in shape.points])
    if isinstance(shape, Disc):
        return replace(shape, centre=(shape.centre[0] + dx, shape.centre[1] + dy))
    return replace(shape, at=(shape.at[0] + dx, shape.at[1] + dy))


def stacked(scenes: Sequence[Scene]) -> Scene:
    """Several scenes stacked into one."""
    if len(scenes) == 1:
        return scenes[0]
    whole = Scene(
        max(scene.width for scene in scenes),
        sum(scene.height for scene in scenes),
        "; ".join(scene.title for scene in scenes),
    )
    top = 0.0
    for scene in scenes:
        whole.add(*(moved(shape, 0.0, top) for shape in scene.shapes))
        top += scene.height
    return whole


def text_width(text: str, size: float = 12.0, bold: bool = False) -> float:
    """Estimated width of a text, not below the width in the fonts named in the SVG.

    Wide letters and scripts without case count as a full em.
    """
    narrow = set("iljtfr.,:;|'!()[] ")
    ems = sum(
        0.36 if c in narrow else 0.92 if c in "mwMW—@%" or ord(c) > 0x2E80 else 0.64 for c in text
    )
    return ems * size * (1.08 if bold else 1.0)


def wrapped(text: str, width: float, size: float, bold: bool = False) -> list[str]:
    """Lines of at most `width` pixels, broken at spaces."""
    lines: list[str] = []
    for word in text.split():
        if lines and text_width(f"{lines[-1]} {word}", size, bold) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def rectangle(x: float, y: float, width: float, height: float) -> list[Point]:
    """Corners of a rectangle."""
    return [(x, y), (x + width, y), (x + width, y + height), (x, y + height)]


def marker(index: int, centre: Point, radius: float, tip: str = "") -> Shape:
    """Marker of series `index`; color and shape are unique for the first 49 series."""
    colour = colour_of(index)
    shape = SHAPES[(index + index // len(COLOURS)) % len(SHAPES)]
    x, y = centre
    r = radius
    if shape == "disc":
        return Disc(centre, r, colour, tip)
    corners: dict[str, list[Point]] = {
        "square": rectangle(x - 0.9 * r, y - 0.9 * r, 1.8 * r, 1.8 * r),
        "triangle": [(x, y - 1.2 * r), (x + 1.15 * r, y + 0.9 * r), (x - 1.15 * r, y + 0.9 * r)],
        "diamond": [(x, y - 1.3 * r), (x + 1.3 * r, y), (x, y + 1.3 * r), (x - 1.3 * r, y)],
        "wedge": [(x, y + 1.2 * r), (x + 1.15 * r, y - 0.9 * r), (x - 1.15 * r, y - 0.9 * r)],
        "cross": _cross(x, y, 1.2 * r, 0.42 * r),
        "bar": rectangle(x - 0.5 * r, y - 1.25 * r, r, 2.5 * r),
    }
    return Area(corners[shape], colour, tip=tip)


def _cross(x: float, y: float, r: float, t: float) -> list[Point]:
    quarter = [(t, -r), (t, -t), (r, -t)]
    points: list[Point] = []
    for turn in range(4):
        for dx, dy in quarter:
            for _ in range(turn):
                dx, dy = -dy, dx
            points.append((x + dx, y + dy))
    return points


def colour_of(index: int) -> str:
    """Color of series `index`."""
    return COLOURS[index % len(COLOURS)]


def ticks(low: float, high: float, most: int = 6, *, whole: bool = False) -> list[float]:
    """Round numbers from at or below `low` to at or above `high`, at most `most` + 2.

    `whole`: only whole numbers, such as steps of a run.

    >>> ticks(0.93, 1.31), ticks(10, 30, 8), ticks(12, 13, whole=True)
    ([0.9, 1.0, 1.1, 1.2, 1.3, 1.4], [10.0, 15.0, 20.0, 25.0, 30.0], [12.0, 13.0])
    """
    if high <= low:
        high = low + (abs(low) or 1.0) * 0.1
    rough = (high - low) / most
    scale = 10.0 ** floor(log10(rough))
    # Counts have no halves: 12.5 is not a step of a run.
    multiples = (1, 2, 5, 10) if scale == 1.0 else (1, 2, 2.5, 5, 10)
    step = next(m * scale for m in multiples if m * scale >= rough * 0.999)
    if whole:
        step = max(step, 1.0)
    first, last = floor(low / step + 1e-9), ceil(high / step - 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


_STEPS = ((1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 7.0), (1.0, 2.0, 5.0), (1.0,))


def log_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from at or below `low` > 0 to at or above `high`, at most `most` + 2.

    >>> log_ticks(0.9, 11.0), log_ticks(1.0, 3e6, 3)
    ([0.5, 1.0, 2.0, 5.0, 10.0, 20.0], [1.0, 10000000.0])
    """
    ticks = [low, high]
    for steps in _STEPS:
        exponents = range(floor(log10(low)), ceil(log10(high)) + 1)
        marks = [round(m * 10.0**e, 12 - e) for e in exponents for m in steps]
        first = max(i for i, mark in enumerate(marks) if mark <= low * (1 + 1e-9))
        last = next(i for i, mark in enumerate(marks) if mark >= high * (1 - 1e-9))
        ticks = marks[first : max(last, first + 1) + 1]
        if len(ticks) <= most + 2:
            return ticks
    return [ticks[0], ticks[-1]]


def share_of(value: float, low: float, high: float, *, log: bool) -> float:
    """Where a value is between the ends of an axis, 0 to 1."""
    if log:
        value, low, high = log10(value), log10(low), log10(high)
    return (value - low) / (high - low)


def tick_text(value: float, step: float) -> str:
    """Label of a tick with the decimals that the step requires; thousands as k.

    >>> [tick_text(1.0, 0.1), tick_text(0.975, 0.025), tick_text(340000, 20000)]
    ['1.0', '0.975', '340k']
    """
    if step >= 500 and value % 500 == 0:
        return f"{value / 1000:g}k" if value else "0"
    decimals = max(0, -floor(log10(step) + 1e-9)) if step < 1 else 0
    if decimals and abs(round(step, decimals) - step) > 1e-9:
        decimals += 1
    return f"{value:.{decimals}f}"
