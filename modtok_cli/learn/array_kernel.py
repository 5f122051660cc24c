"""Arrays that grow inside kernels, and the order of short ones.

Elements are copied one by one, which LLVM turns into one copy of memory. A slice assignment or
`np.sort` gives the same, but numba compiles seconds of code for it: the message of a wrong shape, a
general quicksort.
"""

from __future__ import annotations

import numpy as np

from modtok_cli.base.jit import in_place, njit
from modtok_cli.learn.hugepages import advise_huge_pages, with_edge


@njit()
def resized(array, size, capacity):  # type: ignore[no-untyped-def]
    """A copy of the first `size` elements of a 1-D array, with another capacity."""
    room = np.empty(with_edge(capacity, array.itemsize), dtype=array.dtype)
    first = advise_huge_pages(room)
    copy = room[first : first + capacity]
    for place in range(size):
        copy[place] = array[place]
    return copy


@njit()
def resized_rows(array, size, capacity):  # type: ignore[no-untyped-def]
    """A copy of the first `size` rows of a 2-D array, with another capacity."""
    columns = array.shape[1]
    room = np.empty((with_edge(capacity, columns * array.itemsize), columns), dtype=array.dtype)
    first = advise_huge_pages(room)
    copy = room[first : first + capacity]
    for row in range(size):
        for column in range(columns):
            copy[row, column] = array[row, column]
    return copy


@njit()
def grown(array, size):  # type: ignore[no-untyped-def]
    """A copy of the first `size` elements with twice the capacity."""
    return resized(array, size, 2 * len(array) + 16)


@in_place
def sort_few(array, size):  # type: ignore[no-untyped-def]
    """Sort the first `size` elements in place: insertion, for a few of them."""
    for end in range(1, size):
        value = array[end]
        place = end
        while place > 0 and array[place - 1] > value:
            array[place] = array[place - 1]
            place -= 1
        array[place] = value
