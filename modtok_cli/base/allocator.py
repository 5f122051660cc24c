"""Large arrays are given back to the system when they are freed.

glibc raises the size from which a block gets pages of its own to that of any such block that was
freed (up to 32 MiB). Arrays of a build then come from the heaps of threads, which keep them: 21
languages held 700 MB at their peak, of which half was free. A fixed size ends that. Heaps keep a
little more at their end than by default, so that the arrays of one piece of text are those of the
next: pages that were given back are cleared before they are used again.
"""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_OWN_PAGES = 1 << 20
_KEPT = 1 << 21


def return_large_blocks() -> bool:
    """Give blocks of 1 MiB and more pages of their own, for the whole process.

    False where the allocator is not glibc's; nothing changes there.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is None:
        return False
    mallopt.argtypes = [ctypes.c_int, ctypes.c_int]
    mallopt.restype = ctypes.c_int
    mallopt(_M_TRIM_THRESHOLD, _KEPT)
    return bool(mallopt(_M_MMAP_THRESHOLD, _OWN_PAGES))
