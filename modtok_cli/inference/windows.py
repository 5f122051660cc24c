"""How a text that is longer than the context is predicted."""

from __future__ import annotations

from collections.abc import Iterator


def window_bounds(count: int, width: int) -> Iterator[tuple[int, int, int]]:
    """Windows that together predict each of `count` tokens once, with `width` of context.

    Yields (before, start, stop): tokens start to stop - 1 are predicted after the tokens from
    `before` on. The first window has nothing before it but the token that begins a text. The
    last one has as much left context as fits.

    >>> list(window_bounds(10, 4))
    [(0, 0, 4), (3, 4, 8), (5, 8, 10)]
    """
    for start in range(0, count, width):
        stop = min(start + width, count)
        yield max(0, stop - width - 1), start, stop
