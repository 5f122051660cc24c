"""A binary heap of numbers on a flat array, smallest first: the pairs of a long word by rank."""

from __future__ import annotations

from modtok_cli.base.jit import njit

# Measured on corpus words: a scan beats the heap up to about this many symbols.
SHORT = 48


@njit
def push(heap, size, item):  # type: ignore[no-untyped-def]
    """Insert; the array must have room at index `size`. Returns the new size."""
    at = size
    while at > 0:
        parent = (at - 1) >> 1
        if heap[parent] <= item:
            break
        heap[at] = heap[parent]
        at = parent
    heap[at] = item
    return size + 1


@njit
def pop(heap, size):  # type: ignore[no-untyped-def]
    """Remove the smallest item, which the caller has read from `heap[0]`; return the size."""
    size -= 1
    item = heap[size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= item:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = item
    return size
