"""Kernel that builds the double array of a trie over byte strings; see `trie` and `unit_kernel`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.learn.array_kernel import resized
from modtok_cli.learn.unit_kernel import NO_LABEL

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Units = npt.NDArray[np.uint64]

_EMPTY = np.uint64(NO_LABEL)

# Number of free places that a node tries, oldest and newest, before it takes a new block.
_FEW = 3
_TRIES_OLDEST = 24
_TRIES_NEWEST = 256

# The free places form a ring through `after` and `before`, beginning at place 0.
_I64 = types.int64[::1]
_RESULT = types.Tuple((types.uint64[::1], types.int64))  # type: ignore[no-untyped-call]


@njit([_RESULT(types.Array(types.uint8, 1, "C"), _I64, _I64)], cache=True, nogil=True)
def build_units(data: Bytes, offsets: Ints, ids: Ints) -> tuple[Units, int]:
    """Double array of pieces in ascending byte order; piece i gets value `ids[i]`.

    data (B,) uint8; offsets (P + 1,) int64; ids (P,) int64. Gives the units (U,) uint64
    and -1, or the index of a piece that is empty or equals the one before it.
    """
    pieces = len(offsets) - 1
    bad = np.zeros(1, dtype=np.uint64)
    room = 512
    for piece in range(pieces):
        if offsets[piece + 1] <= offsets[piece]:
            return bad, piece
        room += offsets[piece + 1] - offsets[piece]
    # Twice the maximum need; unused pages are never allocated.
    room = (room * 5 // 4 + 1024) & ~255
    units = np.empty(room, dtype=np.uint64)
    after = np.empty(room, dtype=np.int64)
    before = np.empty(room, dtype=np.int64)
    taken = np.zeros(room, dtype=np.uint8)  # bases in use
    filled = 256
    units[:256] = _EMPTY
    after[0] = 0
    before[0] = 0

    longest = 1
    for piece in range(pieces):
        longest = max(longest, offsets[piece + 1] - offsets[piece])
    # Each level of the walk leaves at most 256 waiting children.
    stack = np.empty((256 * (longest + 1) + 1, 4), dtype=np.int64)
    stack[0, 0] = 0
    stack[0, 1] = 0
    stack[0, 2] = pieces
    stack[0, 3] = 0
    waiting = 1
    labels = np.empty(256, dtype=np.int64)
    cuts = np.empty(257, dtype=np.int64)
    while waiting > 0:
        waiting -= 1
        node = stack[waiting, 0]
        low = stack[waiting, 1]
        high = stack[waiting, 2]
        depth = stack[waiting, 3]
        value = np.int64(0)
        if low < high and offsets[low + 1] - offsets[low] == depth:
            value = ids[low] + 1
            low += 1
            if low < high and offsets[low + 1] - offsets[low] == depth:
                return bad, low
        children = 0
        at = low
        while at < high:
            byte = np.int64(data[offsets[at] + depth])
            labels[children] = byte
            cuts[children] = at
            children += 1
            at += 1
            while at < high and np.int64(data[offsets[at] + depth]) == byte:
                at += 1
        cuts[children] = high
        base: Any = np.int64(0)
        if children > 0:
            # A few children fit into old gaps; for many, the newest block is the emptiest.
            for newest in range(2):
                if base != 0 or (newest == 0 and children > _FEW):
                    continue
                place = before[0] if newest else after[0]
                tries = _TRIES_NEWEST if newest else _TRIES_OLDEST
                while place != 0 and tries > 0:
                    tries -= 1
                    candidate = place ^ labels[0]
                    if taken[candidate] == 0:
                        fits = True
                        for i in range(1, children):
                            if units[candidate ^ labels[i]] != _EMPTY:
                                fits = False
                                break
                        if fits:
                            base = candidate
                            break
                    place = before[place] if newest else after[place]
            if base == 0:
                if filled + 256 > room:
                    room = room + room // 2 + 256 & ~255
                    units = resized(units, filled, room)
                    after = resized(after, filled, room)
                    before = resized(before, filled, room)
                    taken = resized(taken, filled, room)
                    taken[filled:] = 0
                last = before[0]
                for i in range(filled, filled + 256):
                    units[i] = _EMPTY
                    before[i] = last
                    after[last] = i
                    last = i
                after[last] = 0
                before[0] = last
                base = filled
                filled += 256
            taken[base] = 1
            for i in range(children):
                child = base ^ labels[i]
                units[child] = np.uint64(labels[i])
                after[before[child]] = after[child]
                before[after[child]] = before[child]
            # The first child is visited first: it is put on top.
            for i in range(children - 1, -1, -1):
                stack[waiting, 0] = base ^ labels[i]
                stack[waiting, 1] = cuts[i]
                stack[waiting, 2] = cuts[i + 1]
                stack[waiting, 3] = depth + 1
                waiting += 1
        units[node] |= (np.uint64(base) << np.uint64(36)) | (np.uint64(value) << np.uint64(9))
    return units[:filled].copy(), -1
