"""The table of adjacent pairs: how often each occurs, and where.

Words are one flat array of symbols with links to the next and the previous symbol (-1 at a
word's ends). Position p stands for the pair of its symbol and the next one.

Counts are always exact. Positions are kept in a list per pair that is only appended to; the
reader of a list skips positions whose symbols have changed. A position never returns to a
pair that it left, because symbols only grow, so no position is visited twice. (Doubly linked
lists with removal took 1.1 times as long: the time of a merge is that of its cache misses,
and each removal touches two more entries.)

Row (int64 × 4): key (`left << 32 | right`, -1 when empty), count, last entry of its list
(-1: none), largest count that the heap has for it.
List entry (int32 × 2): position, entry before it (-1: none).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from modtok_cli.base.jit import njit
from modtok_cli.learn.hugepages import advise_huge_pages

KEY = 0
COUNT = 1
LAST = 2
QUEUED = 3


class PairIndex(NamedTuple):
    """The table of 2**bits rows, its number of used rows, the list entries and their number."""

    table: Any
    bits: Any
    used: Any
    places: Any
    placed: Any


_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@njit(cache=True, nogil=True)
def new_table(bits):  # type: ignore[no-untyped-def]
    """An empty table of 2**bits rows."""
    table = np.empty((1 << bits, 4), dtype=np.int64)
    advise_huge_pages(table)
    for row in range(1 << bits):
        table[row, KEY] = -1
        table[row, COUNT] = 0
        table[row, LAST] = -1
        table[row, QUEUED] = 0
    return table


@njit(cache=True, nogil=True, inline="always")
def home(key, bits):  # type: ignore[no-untyped-def]
    """First row to probe for `key`."""
    return np.int64((np.uint64(key) * _SPREAD) >> np.uint64(64 - bits))


@njit(cache=True, nogil=True)
def find(table, bits, key):  # type: ignore[no-untyped-def]
    """Row of `key`, or the empty row to insert it at."""
    mask = (1 << bits) - 1
    row = home(key, bits)
    while True:
        there = table[row, KEY]
        if there == key or there == -1:
            return row
        row = (row + 1) & mask


@njit(cache=True, nogil=True, inline="always")
def add_place(table, row, places, total, position, weight):  # type: ignore[no-untyped-def]
    """Add `position` to the pair of `row`; `places` must have capacity at index `total`."""
    places[total, 0] = position
    places[total, 1] = table[row, LAST]
    table[row, LAST] = total
    table[row, COUNT] += weight


@njit(cache=True, nogil=True)
def rehash(table, bits):  # type: ignore[no-untyped-def]
    """Move the rows with a count to a table with capacity for twice as many.

    Pairs that no longer occur are dropped; heap entries for them then find no row.
    Returns (table, bits, used rows).
    """
    living = 0
    for row in range(len(table)):
        if table[row, KEY] >= 0 and table[row, COUNT] > 0:
            living += 1
    new_bits = bits
    while (1 << new_bits) < 4 * living:
        new_bits += 1
    fresh = new_table(new_bits)
    for row in range(len(table)):
        if table[row, KEY] >= 0 and table[row, COUNT] > 0:
            place = find(fresh, new_bits, table[row, KEY])
            for column in range(4):
                fresh[place, column] = table[row, column]
    return fresh, new_bits, living
