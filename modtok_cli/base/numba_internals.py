"""What modtok uses of numba's internals, and whether this version has it.

Versions may change internals. Where one differs from what is listed here, the hooks that need it
are left out: kernels are compiled as numba does by itself, or are not stored on disk.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from typing import Any

TESTED = "0.68.1"
"""The newest version of numba that was tested."""

Needs = Mapping[str, int | str | None]
"""Names in `numba.core`: the number of a function's parameters, the attributes that a function uses
or a class has, or None where the name alone is needed."""

# For `base.parts`, `base.call_types` and `base.jit.in_place`.
COMPILING: Needs = {
    "caching.NullCache": None,
    "ccallback.CFunc.__init__": "_pyfunc",
    "ccallback.CFunc._compile_uncached": 1,
    "codegen.CPUCodegen._init": "_engine",
    "codegen.CPUCodeLibrary.__init__": "_final_module _linking_libraries _shared_module",
    "codegen.JITCPUCodegen.set_env": 3,
    "codegen.JITCodeLibrary._ensure_finalized": 1,
    "codegen.JITCodeLibrary._finalized": None,
    "codegen.JITCodeLibrary._raise_if_finalized": 1,
    "codegen.JITCodeLibrary.finalize": 1,
    "codegen.JITCodeLibrary.get_pointer_to_function": 2,
    "codegen.JitEngine.is_symbol_defined": 2,
    "compiler.CompileResult": "library signature",
    "compiler.CompilerBase.__init__": "flags func_id library targetctx",
    "compiler.Flags": "no_cfunc_wrapper no_cpython_wrapper",
    "cpu.CPUContext.codegen": 1,
    "cpu.CPUContext.get_executable": 4,
    "dispatcher.Dispatcher.__init__": "_cache targetoptions",
    "dispatcher.Dispatcher.add_overload": 2,
    "dispatcher.Dispatcher.compile": 2,
    "dispatcher._DispatcherBase.__init__": "overloads py_func",
    "environment.lookup_environment": 1,
    "options.DefaultOptions._nrt": None,
    "sigutils.normalize_signature": 1,
    "typed_passes.BaseNativeLowering.run_pass": 2,
    "types.functions.BaseFunction.get_call_type": 4,
    "types.unliteral": 1,
}
# For `base.kernel_storage`.
STORING: Needs = {
    "caching.Cache.__init__": "_py_func",
    "caching.Cache.load_overload": 3,
    "caching.Cache.save_overload": 3,
    "caching.CacheImpl._locator_classes": None,
    "caching.InTreeCacheLocator.__init__": "_cache_path _py_file",
    "caching.InTreeCacheLocator.from_function": 2,
    "caching._SourceFileBackedLocatorMixin.get_source_stamp": 1,
    "event.Listener.on_end": 2,
    "event.Listener.on_start": 2,
    "event.register": 2,
}


def internal(path: str) -> Any:
    """An object of `numba.core`; some names were private in earlier versions.

    Raises:
        ImportError: there is no such module.
        AttributeError: there is no such name.
    """
    module, *names = path.split(".")
    found = importlib.import_module(f"numba.core.{module}")
    for name in names:
        found = getattr(found, name if hasattr(found, name) else f"_{name}")
    return found


def differences(needs: Needs) -> list[str]:
    """The names of `needs` that this numba does not have, or has in another form."""
    return [path for path, form in needs.items() if not _has(path, form)]


def _has(path: str, form: int | str | None) -> bool:
    try:
        found = internal(path)
        if isinstance(form, int):
            return len(inspect.signature(found).parameters) == form
        if isinstance(form, str):
            is_class = inspect.isclass(found)
            names = dir(found) if is_class else inspect.unwrap(found).__code__.co_names
            return set(form.split()) <= set(names)
    except (ImportError, AttributeError, TypeError, ValueError):
        return False
    return True
