"""numba's cache, for read-only installations as well (see `kernel_cache`), and what is compiled.

Stored kernels are valid for the sources that they contain. Those that are not on disk may be
compiled by other processes, see `compiling`, which reports what is compiled here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numba.core import caching as numba_caching
from numba.core import event

from modtok_cli.base import compiling
from modtok_cli.base.kernel_cache import (
    PACKAGE,
    chosen_directory,
    installed_directory,
    is_ours,
    is_writable,
    source_stamp,
    writable_directory,
)
from modtok_cli.base.numba_internals import internal

caching: Any = numba_caching  # its types are partial
_InTree: Any = internal("caching.InTreeCacheLocator")


class KernelLocator(_InTree):  # type: ignore[misc]
    """Cache of a kernel of this package where the installation is read-only."""

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> KernelLocator | None:
        """The locator of a kernel; None leaves it to numba's own locators."""
        source = Path(py_file)
        if PACKAGE not in source.parents or chosen_directory() is not None:
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
        if not is_ours(self._py_func):
            raise


def _load_overload(self: Any, sig: Any, target_context: Any) -> Any:
    """A compiled function from disk; other processes may compile it now, see `compiling`."""
    found = _numba_load_overload(self, sig, target_context)
    if found is None and is_ours(self._py_func) and compiling.before_compiling():
        found = _numba_load_overload(self, sig, target_context)
    return found


class _Listener(event.Listener):
    def on_start(self, event: event.Event) -> None:
        compiling.begin()

    def on_end(self, event: event.Event) -> None:
        compiling.end()


def _source_stamp(self: Any) -> object:
    """What a stored kernel is valid for; see `kernel_cache.source_stamp`."""
    source = Path(self._py_file)
    return source_stamp(source) if PACKAGE in source.parents else _numba_source_stamp(self)


_FileLocator: Any = caching._SourceFileBackedLocatorMixin
_numba_source_stamp = _FileLocator.get_source_stamp
_FileLocator.get_source_stamp = _source_stamp
_numba_save_overload = caching.Cache.save_overload
caching.Cache.save_overload = _save_overload
_numba_load_overload = caching.Cache.load_overload
caching.Cache.load_overload = _load_overload
_register: Any = event.register  # without types
_register("numba:compile", _Listener())
caching.CacheImpl._locator_classes.insert(0, KernelLocator)
