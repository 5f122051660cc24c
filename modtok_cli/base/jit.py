"""`njit` and `cfunc` of numba, with a cache for read-only installations (see `kernel_cache`).

Kernels import them from here, so that the cache is set up before the first one is declared.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numba import cfunc, njit
from numba.core import caching as numba_caching
from numba.core import event, sigutils
from numba.core.dispatcher import Dispatcher as NumbaDispatcher
from numba.core.types import unliteral

from modtok_cli.base import call_types as _call_types  # noqa: F401 - numba uses it
from modtok_cli.base import compiling, parts
from modtok_cli.base.kernel_cache import (
    PACKAGE,
    chosen_directory,
    installed_directory,
    is_writable,
    source_stamp,
    writable_directory,
)

__all__ = ["cfunc", "njit"]

caching: Any = numba_caching  # its types are partial
Dispatcher: Any = NumbaDispatcher
_normalized: Any = sigutils.normalize_signature
_InTree: Any = getattr(caching, "InTreeCacheLocator", None) or caching._InTreeCacheLocator


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
        if not _is_ours(self._py_func):
            raise


def _is_ours(function: Any) -> bool:
    """Whether a function is a kernel of this package."""
    return PACKAGE in Path(function.__code__.co_filename).parents


def _load_overload(self: Any, sig: Any, target_context: Any) -> Any:
    """A compiled function from disk; other processes may compile it now, see `compiling`."""
    found = _numba_load_overload(self, sig, target_context)
    if found is None and _is_ours(self._py_func) and compiling.before_compiling():
        found = _numba_load_overload(self, sig, target_context)
    return found


def _compile(self: Any, sig: Any) -> Any:
    """Compile a function for types, never for one constant as well.

    While numba infers the types of a loop, a variable that begins as 0 is the literal 0 at first,
    and each kernel called with it would be compiled for that too: a third of all compilation.
    """
    if type(sig) is tuple and _is_ours(self.py_func):
        sig = tuple(map(unliteral, sig))
    with parts.compiling(self, _normalized(sig)[0]):
        return _numba_compile(self, sig)


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
_numba_compile = Dispatcher.compile
Dispatcher.compile = _compile
_register: Any = event.register  # without types
_register("numba:compile", _Listener())
caching.CacheImpl._locator_classes.insert(0, KernelLocator)
