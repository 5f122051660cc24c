"""What every chart has: a title, a legend, axes, a note."""

from collections.abc import Mapping

from modtok_cli.reports.plot.scene import (
    FAINT,
    GRID,
    INK,
    Label,
    Line,
    Scene,
    log_ticks,
    marker,
    share_of,
    text_width,
    tick_text,
    ticks,
    wrapped,
)

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
