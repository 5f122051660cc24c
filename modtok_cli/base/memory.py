"""Checks before large allocations, because the system kills without a message; the allocator."""

import ctypes
import gc
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from modtok_cli.base.errors import ModtokError

_MEMINFO = Path("/proc/meminfo")
_OWN = Path("/proc/self/statm")
_GROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (
        Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
        Path("/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ),
)
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_OWN_PAGES = 1 << 22
_KEPT = 1 << 22
_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_bytes(value: str | int) -> int:
    """Bytes of "80GB", "79.2GiB" or a number; units in any case.

    >>> parse_bytes("80GB"), parse_bytes("1.5 mib")
    (80000000000, 1572864)

    Raises:
        ValueError: anything else.
    """
    text = str(value).strip().upper()
    parts = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([KMGT]?)(I?)B?", text)
    if not parts or not float(parts[1]):
        raise ValueError(f"expected a size such as 80GB, got {value!r}")
    unit = _UNITS[parts[2]]
    if parts[3]:
        unit = 1024 ** list(_UNITS).index(parts[2])
    return int(float(parts[1]) * unit)


def available() -> int | None:
    """Free bytes according to the kernel, the container's limit and `ulimit -v`.

    None if the system does not report it; memory is then not checked.
    """
    sizes: list[int] = []
    try:
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                sizes.append(int(line.split()[1]) * 1024)
    except (OSError, ValueError, IndexError):
        return None
    for limit, used in _GROUPS:
        try:
            sizes.append(int(limit.read_text()) - int(used.read_text()))
        except (OSError, ValueError):  # "max": no limit
            continue
    space, _ = resource.getrlimit(resource.RLIMIT_AS)
    if space != resource.RLIM_INFINITY:
        try:
            pages = int(_OWN.read_text().split()[0])
            sizes.append(max(0, space - pages * resource.getpagesize()))
        except (OSError, ValueError, IndexError):
            pass
    return min(sizes) if sizes else None


def peak_bytes() -> int:
    """Most memory that this process has held."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024)


def check_memory(need: int, work: str, remedy: str) -> None:
    """Refuse work that will not fit in memory; `remedy`: how the user can reduce it.

    Raises:
        ModtokError: `need` bytes are more than `available()`; states both.
    """
    free = available()
    if free is not None and need > free:
        raise ModtokError(
            f"{work} needs about {need / 2**30:.1f} GiB of memory, {free / 2**30:.1f} GiB are free",
            remedy=remedy,
        )


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable garbage collection while millions of long-lived objects are created."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def return_large_blocks() -> bool:
    """Give blocks of 4 MiB and more pages of their own, for the whole process.

    glibc raises the size from which a block gets pages of its own to that of any such block
    that was freed (up to 32 MiB). Arrays of a build then come from the heaps of threads, which
    keep them: 21 languages held 700 MB at their peak, of which half was free. Heaps keep a
    little more at their end than by default, so that the arrays of one piece of text are those
    of the next: pages that were given back are cleared before they are used again. False where
    the allocator is not glibc's; nothing changes there.
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
