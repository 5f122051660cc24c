"""Large pages for large tables.

Learning jumps about in tables of many megabytes, where finding the page of an address
costs as much as fetching it. Linux gives pages of 2 MiB to memory that asks for them
(numpy asks for its own arrays, numba's allocator does not).
"""

from __future__ import annotations

import sys

from numba import njit, types

# Read when a kernel is compiled: elsewhere than on Linux nothing is asked for.
_ADVISED = sys.platform == "linux"
_HUGE = 1 << 21
_MADV_HUGEPAGE = 14

_madvise = types.ExternalFunction("madvise", types.int32(types.uintp, types.uintp, types.int32))


@njit(cache=True, nogil=True)
def ask_for_large_pages(array):  # type: ignore[no-untyped-def]
    """Ask for large pages under `array`, which is fresh and not written to yet."""
    if _ADVISED:
        size = array.size * array.itemsize
        start = array.ctypes.data
        first = (start + _HUGE - 1) // _HUGE * _HUGE
        last = (start + size) // _HUGE * _HUGE
        if last > first:
            _madvise(first, last - first, _MADV_HUGEPAGE)  # type: ignore[call-overload]
