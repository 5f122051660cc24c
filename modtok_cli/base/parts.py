"""Kernels that only other kernels call: parts of these, without machine code of their own.

For each function that a kernel calls, numba makes machine code and two functions more, by which
Python and C call it, and optimizes its code again in every kernel that contains it: a third of all
compilation. What a kernel calls that is not stored on disk by itself (`njit` without `cache`,
numba's own functions) is a part here: typed and lowered once in a process, and made machine code
within the kernels only.

A part that Python calls is compiled like any other kernel. No kernel can take its address. Kernels
of other packages in the same process are compiled as numba does by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

from numba.core import (
    caching,
    ccallback,
    codegen,
    cpu,
    dispatcher,
    environment,
    sigutils,
    typed_passes,
)

from modtok_cli.base.kernel_cache import is_ours

_Library: Any = codegen.JITCodeLibrary  # numba has partial types
_Codegen: Any = codegen.JITCPUCodegen
_Context: Any = cpu.CPUContext
_Lowering: Any = typed_passes.BaseNativeLowering
_Dispatcher: Any = dispatcher.Dispatcher
_Callback: Any = ccallback.CFunc
_NoCache: Any = caching.NullCache
_library_of = attrgetter("library")
_environment: Any = environment.lookup_environment
_normalized: Any = sigutils.normalize_signature


class _Stack(threading.local):
    """Of each function that this thread is compiling, the outermost first, whether it is a part."""

    def __init__(self) -> None:
        self.parts: list[bool] = []


_stack = _Stack()


class PartLibrary(_Library):  # type: ignore[misc]
    """Code that is optimized and made machine code within others only."""

    def finalize(self) -> None:
        """Make the code ready to be linked into others, any number of times."""
        self._raise_if_finalized()
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage.name == "external":
                function.linkage = "linkonce_odr"
        self._shared_module = self._final_module
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """No address."""
        self._ensure_finalized()
        return 0


def _compile(self: Any, sig: Any) -> Any:
    """Compile a function for types: as a part or as a kernel."""
    types = tuple(_normalized(sig)[0])
    if not _stack.parts and _is_part(self.overloads.get(types)):
        del self.overloads[types]  # now Python calls it, or a kernel of another package
    if not _stack.parts and not is_ours(self.py_func):
        return _numba_compile(self, sig)
    is_part = bool(_stack.parts) and isinstance(self._cache, _NoCache)
    is_part = is_part and not self.targetoptions.get("parallel")
    with _entered(is_part):
        return _numba_compile(self, sig)


@contextmanager
def _entered(is_part: bool) -> Iterator[None]:
    _stack.parts.append(is_part)
    try:
        yield
    finally:
        _stack.parts.pop()


def _is_part(compiled: Any) -> bool:
    return compiled is not None and isinstance(_library_of(compiled), PartLibrary)


def _lower(self: Any, state: Any) -> Any:
    """Lower a function into a library of its own, of the right kind."""
    if _stack.parts and _stack.parts[-1] and state["library"] is None:
        state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
        state["library"] = PartLibrary(state.targetctx.codegen(), state.func_id.func_qualname)
    return _numba_lower(self, state)


def _finalize(self: Any) -> None:
    """Link all that a kernel contains: parts do not contain those that they call."""
    found: dict[Any, None] = {}
    waiting = self._linking_libraries[::-1]
    while waiting:
        library = waiting.pop()
        if library not in found:
            found[library] = None
            if isinstance(library, PartLibrary):
                waiting.extend(library._linking_libraries[::-1])
    self._linking_libraries = list(found)
    _numba_finalize(self)


def _get_executable(self: Any, library: Any, description: Any, env: Any) -> Any:
    """The function for Python; the globals of parts are known as soon as a kernel has them."""
    found = _numba_get_executable(self, library, description, env)
    if not isinstance(library, PartLibrary):
        for variable in library._final_module.global_variables:
            other = _environment(variable.name)
            if other is not None:
                library.codegen.set_env(variable.name, other)
    return found


def _set_env(self: Any, name: str, env: Any) -> None:
    if self._engine.is_symbol_defined(name):
        _numba_set_env(self, name, env)


def _add_overload(self: Any, compiled: Any) -> None:
    """Keep what was compiled, a part not for calls from Python."""
    if _is_part(compiled):
        self.overloads[tuple(compiled.signature.args)] = compiled
    else:
        _numba_add_overload(self, compiled)


def _compile_callback(self: Any) -> Any:
    if not is_ours(self._pyfunc):
        return _numba_compile_callback(self)
    with _entered(False):
        return _numba_compile_callback(self)


_numba_lower, _Lowering.run_pass = _Lowering.run_pass, _lower
_numba_finalize, _Library.finalize = _Library.finalize, _finalize
_numba_get_executable, _Context.get_executable = _Context.get_executable, _get_executable
_numba_set_env, _Codegen.set_env = _Codegen.set_env, _set_env
_numba_compile, _Dispatcher.compile = _Dispatcher.compile, _compile
_numba_add_overload, _Dispatcher.add_overload = _Dispatcher.add_overload, _add_overload
_numba_compile_callback = _Callback._compile_uncached
_Callback._compile_uncached = _compile_callback
