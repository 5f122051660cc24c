"""Huge pages for large tables.

Learning accesses tables of many megabytes at random, where a TLB miss costs as much as the
access. Linux backs memory with pages of 2 MiB after `madvise` (numpy calls it for its own
arrays, numba's allocator does not).
"""

from __future__ import annotations

import sys

from numba import types

from modtok_cli.base.jit import njit

# A constant of the compiled kernels: without Linux the function does nothing.
_IS_LINUX = sys.platform == "linux"
_HUGE = 1 << 21
_MADV_HUGEPAGE = 14

_madvise = types.ExternalFunction("madvise", types.int32(types.uintp, types.uintp, types.int32))


@njit()
def advise_huge_pages(array):  # type: ignore[no-untyped-def]
    """Advise the kernel to back `array`, which was not written to yet, with huge pages."""
    if _IS_LINUX:
        size = array.size * array.itemsize
        start = array.ctypes.data
        first = (start + _HUGE - 1) // _HUGE * _HUGE
        last = (start + size) // _HUGE * _HUGE
        if last > first:
            _madvise(first, last - first, _MADV_HUGEPAGE)  # type: ignore[call-overload]
