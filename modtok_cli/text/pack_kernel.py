"""Documents of a block of text one after the other, without a Python object for each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.text.word_key_kernel import PADDING

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_INTS = types.Array(types.int64, 1, "C", readonly=True)


def packed(data: Bytes, starts: Ints, stops: Ints) -> tuple[Bytes, Ints]:
    """The texts data[starts[i]:stops[i]] as one buffer and offsets; `data` itself if it will do.

    Shapes: data (B,) uint8 with `PADDING` bytes after the last text; starts, stops (D,) int64.
    Returns a buffer (N,) uint8 with as much padding, and offsets (D + 1,) int64 of the texts.
    """
    offsets = np.empty(len(starts) + 1, dtype=np.int64)
    if len(starts) and np.array_equal(starts[1:], stops[:-1]):
        offsets[0] = starts[0]
        offsets[1:] = stops
        return data, offsets
    offsets[0] = 0
    np.cumsum(stops - starts, out=offsets[1:])
    out = np.empty(int(offsets[-1]) + PADDING, dtype=np.uint8)
    _copy(data, starts, offsets, out)
    return out, offsets


@njit(types.void(_BYTES, _INTS, _INTS, types.uint8[::1]), cache=True, nogil=True)
def _copy(data: Bytes, starts: Ints, offsets: Ints, out: Bytes) -> None:
    """Write the texts that begin at `starts` to `offsets` of `out`, and zeros after them."""
    for text in range(len(starts)):
        start, to = starts[text], offsets[text]
        for at in range(offsets[text + 1] - to):
            out[to + at] = data[start + at]
    for at in range(offsets[-1], len(out)):
        out[at] = 0
