"""`njit` and `cfunc` of numba, with a cache for read-only installations (see `kernel_cache`).

Kernels import them from here, so that the cache is set up before the first one is declared.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numba import cfunc, config, njit
from numba.core import caching as numba_caching

from modtok_cli.base.kernel_cache import (
    PACKAGE,
    installed_directory,
    is_writable,
    source_stamp,
    writable_directory,
)

__all__ = ["cfunc", "njit"]

caching: Any = numba_caching  # its types are partial
_InTree: Any = getattr(caching, "InTreeCacheLocator", None) or caching._InTreeCacheLocator


class KernelLocator(_InTree):  # type: ignore[misc]
    """Cache of a kernel of this package where the installation is read-only."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> KernelLocator | None:
        """The locator of a kernel; None leaves it to numba's own locators."""
        source = Path(py_file)
        if getattr(config, "CACHE_DIR", "") or PACKAGE not in source.parents:
            return None
        if is_writable(installed_directory(source)):
            return None
        locator = cls(py_func, py_file)
        directory = writable_directory(source)
        if directory is not None:
            locator._cache_path = str(directory)
        return locator


def _save_overload(self: Any, sig: Any, data: Any) -> None:
    """Store a compiled function; not being able to is no error for kernels of this package."""
    try:
        _numba_save_overload(self, sig, data)
    except OSError:  # read-only, or no space left
        if PACKAGE not in Path(self._py_func.__code__.co_filename).parents:
            raise


def _source_stamp(self: Any) -> object:
    """What a stored kernel is valid for; see `kernel_cache.source_stamp`."""
    source = Path(self._py_file)
    return source_stamp(source) if PACKAGE in source.parents else _numba_source_stamp(self)


_FileLocator: Any = caching._SourceFileBackedLocatorMixin
_numba_source_stamp = _FileLocator.get_source_stamp
_FileLocator.get_source_stamp = _source_stamp
_numba_save_overload = caching.Cache.save_overload
caching.Cache.save_overload = _save_overload
caching.CacheImpl._locator_classes.insert(0, KernelLocator)
