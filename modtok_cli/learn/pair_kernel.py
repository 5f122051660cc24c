"""The table of adjacent pairs: how often each occurs, and where.

Words are laid out by bytes (`join_kernel.lay_out`). Position p stands for the pair of the symbol
that starts there and the next one.

A pair is born in the merge that makes the later of its symbols; from then on its count only falls.
So pairs that are too rare ever to be merged need no row: `floor` is the least count that has one.
Most pairs are rare, and the time of a merge is that of its cache misses.

The list of a pair is complete when the pair is born, and never changed. Its reader skips positions
whose symbols have changed; a position never returns to a pair that it left, because symbols only
grow.

The exception is a merge whose result T has already (second passes): its pairs may become more
frequent. The caller then indexes all pairs, with `floor` 1.

Row (int64 × 4): key (`left << 32 | right`, -1 when empty), count, index of its list (-1: none),
largest count that the heap has for it. List (int32): its length, then positions, ascending.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from modtok_cli.base.jit import in_place, njit
from modtok_cli.learn.hugepages import advise_huge_pages, with_edge

KEY = 0
COUNT = 1
LIST = 2
QUEUED = 3


class PairIndex(NamedTuple):
    """The table of 2**bits rows, its number of used rows, the lists and their used length."""

    table: Any
    bits: Any
    used: Any
    places: Any
    placed: Any


_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@njit()
def new_table(bits):  # type: ignore[no-untyped-def]
    """An empty table of 2**bits rows."""
    room = np.empty((with_edge(1 << bits, 32), 4), dtype=np.int64)
    first = advise_huge_pages(room)
    table = room[first : first + (1 << bits)]
    for row in range(1 << bits):
        table[row, KEY] = -1
        table[row, COUNT] = 0
        table[row, LIST] = -1
        table[row, QUEUED] = 0
    return table


@njit(cache=True, nogil=True, inline="always")
def home(key, bits):  # type: ignore[no-untyped-def]
    """First row to probe for `key`."""
    return np.int64((np.uint64(key) * _SPREAD) >> np.uint64(64 - bits))


@in_place
def find(table, bits, key):  # type: ignore[no-untyped-def]
    """Row of `key`, or the empty row to insert it at."""
    mask = (1 << bits) - 1
    row = home(key, bits)
    while True:
        there = table[row, KEY]
        if there == key or there == -1:
            return row
        row = (row + 1) & mask


@in_place
def is_full(table, used):  # type: ignore[no-untyped-def]
    """Whether the table needs a `rehash` before another row."""
    return used * 10 > len(table) * 6


@njit()
def rehash(table, floor):  # type: ignore[no-untyped-def]
    """Move the rows with a count of at least `floor` to a table with room for as many again.

    The other pairs are dropped; heap entries for them then find no row.
    Returns (table, bits, used rows).
    """
    living = 0
    for row in range(len(table)):
        if table[row, KEY] >= 0 and table[row, COUNT] >= floor:
            living += 1
    new_bits = 12
    while (1 << new_bits) < 4 * living:
        new_bits += 1
    fresh = new_table(new_bits)
    for row in range(len(table)):
        if table[row, KEY] >= 0 and table[row, COUNT] >= floor:
            place = find(fresh, new_bits, table[row, KEY])
            for column in range(4):
                fresh[place, column] = table[row, column]
    return fresh, new_bits, living


@njit()
def with_room(table, places, floor, room):  # type: ignore[no-untyped-def]
    """A copy of the lists with capacity for `room` more numbers: (places, used length).

    Lists of pairs below `floor`, and of those that were merged, are left out.
    """
    living = np.int64(0)
    for row in range(len(table)):
        if table[row, COUNT] >= floor and table[row, LIST] >= 0:
            living += 1 + np.int64(places[table[row, LIST]])
    size = room + living + max(living // 2, len(places) // 8)
    block = np.empty(with_edge(size, 4), dtype=np.int32)
    edge = advise_huge_pages(block)
    fresh = block[edge : edge + size]
    end = np.int64(0)
    for row in range(len(table)):
        first = table[row, LIST]
        if first < 0:
            continue
        if table[row, COUNT] < floor:
            table[row, LIST] = -1
            continue
        length = 1 + np.int64(places[first])
        for step in range(length):
            fresh[end + step] = places[first + step]
        table[row, LIST] = end
        end += length
    return fresh, end


@in_place
def list_length(table, row, places):  # type: ignore[no-untyped-def]
    """Number of positions in the list of a row; 0 without one."""
    first = table[row, LIST]
    return np.int64(places[first]) if first >= 0 else np.int64(0)


@in_place
def new_list(table, row, places, placed, more):  # type: ignore[no-untyped-def]
    """Start a list of a pair's positions with `more` of them: where to write those.

    `places` has room for it.
    """
    earlier = table[row, LIST]
    old = list_length(table, row, places)
    for step in range(1, old + 1):
        places[placed + step] = places[earlier + step]
    places[placed] = old + more
    table[row, LIST] = placed
    return placed + 1 + old


@in_place
def sort_list(places, first):  # type: ignore[no-untyped-def]
    """Sort the list at `first`: Shell's method, for few changes of order."""
    size = np.int64(places[first])
    gap = 1
    while gap < size // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for end in range(first + 1 + gap, first + 1 + size):
            value = places[end]
            place = end
            while place - gap > first and places[place - gap] > value:
                places[place] = places[place - gap]
                place -= gap
            places[place] = value
        gap //= 3
