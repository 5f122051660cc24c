"""Huge pages for large tables.

Learning accesses tables of many megabytes at random, where a TLB miss costs as much as the
access. Linux backs memory with pages of 2 MiB after `madvise` (numpy calls it for its own
arrays, numba's allocator does not).
"""

from __future__ import annotations

import sys

import numpy as np
from numba import types

from modtok_cli.base.jit import in_place

# A constant of the compiled kernels: without Linux the functions do nothing.
_IS_LINUX = sys.platform == "linux"
_HUGE = 1 << 21
_PAGE = 1 << 12
_MADV_HUGEPAGE = 14

_madvise = types.ExternalFunction("madvise", types.int32(types.uintp, types.uintp, types.int32))


@in_place
def with_edge(rows, row_bytes):  # type: ignore[no-untyped-def]
    """Rows to allocate, so that `rows` of them can begin at a huge page and end with one.

    Linux begins a block at a huge page if it is as large as several of them. The allocator writes
    to the first one, which is made of small pages then: it is the edge, and hardly takes memory.
    """
    if not _IS_LINUX or rows * row_bytes < _HUGE // 2:
        return np.int64(rows)
    pages = 1 + (rows * row_bytes + _PAGE + _HUGE - 1) // _HUGE
    return np.int64((pages * _HUGE - _PAGE) // row_bytes)


@in_place
def advise_huge_pages(array):  # type: ignore[no-untyped-def]
    """Advise the kernel to back `array`, which was not written to yet, with huge pages.

    Returns its first row in one, 0 for an array without an edge.
    """
    size = array.size * array.itemsize
    if not _IS_LINUX or size < _HUGE:
        return np.int64(0)
    start = array.ctypes.data
    first = start // _PAGE * _PAGE
    last = (start + size + _PAGE - 1) // _PAGE * _PAGE
    _madvise(first, last - first, _MADV_HUGEPAGE)  # type: ignore[call-overload]
    edge = (_HUGE - start % _HUGE) % _HUGE
    return np.int64(edge * len(array) // size)
