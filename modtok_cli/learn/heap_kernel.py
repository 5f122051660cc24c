"""A binary heap of (count, key) on two flat arrays: largest count first, then smallest key.

That order is the tie-break of all BPE learning here: the higher count wins, and among equal
counts the smaller ids (a pair's key is `left << 32 | right`, a token's is its id).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from modtok_cli.base.jit import in_place, njit


class Heap(NamedTuple):
    """Counts and keys, (capacity,) int64 each, and the number of entries."""

    counts: Any
    keys: Any
    size: Any


@njit(cache=True, nogil=True, inline="always")
def _before(count_a, key_a, count_b, key_b):  # type: ignore[no-untyped-def]
    return count_a > count_b or (count_a == count_b and key_a < key_b)


@in_place
def push(counts, keys, size, count, key):  # type: ignore[no-untyped-def]
    """Insert; the arrays must have room at index `size`. Returns the new size."""
    place = size
    while place > 0:
        parent = (place - 1) >> 1
        if not _before(count, key, counts[parent], keys[parent]):
            break
        counts[place] = counts[parent]
        keys[place] = keys[parent]
        place = parent
    counts[place] = count
    keys[place] = key
    return size + 1


@in_place
def sift_down(counts, keys, size, place):  # type: ignore[no-untyped-def]
    """Restore the order below `place`."""
    count = counts[place]
    key = keys[place]
    while True:
        child = 2 * place + 1
        if child >= size:
            break
        if child + 1 < size and _before(
            counts[child + 1], keys[child + 1], counts[child], keys[child]
        ):
            child += 1
        if not _before(counts[child], keys[child], count, key):
            break
        counts[place] = counts[child]
        keys[place] = keys[child]
        place = child
    counts[place] = count
    keys[place] = key


@in_place
def drop_top(counts, keys, size):  # type: ignore[no-untyped-def]
    """Remove the first entry. Returns the new size."""
    size -= 1
    if size > 0:
        counts[0] = counts[size]
        keys[0] = keys[size]
        sift_down(counts, keys, size, 0)
    return size


@in_place
def heapify(counts, keys, size):  # type: ignore[no-untyped-def]
    """Establish the heap order among `size` entries."""
    for place in range(size // 2 - 1, -1, -1):
        sift_down(counts, keys, size, place)
