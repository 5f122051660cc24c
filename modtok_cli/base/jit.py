"""`njit` and `cfunc` of numba, which compile in less time and store what they compiled.

Kernels import them from here, so that numba is prepared before the first one is declared.
"""

from __future__ import annotations

from typing import Any

from numba import cfunc, njit

from modtok_cli.base.numba_internals import COMPILING, STORING, differences

__all__ = ["cfunc", "in_place", "njit"]

_uncounted: dict[str, Any] = {}


def _without_cache(decorator: Any) -> Any:
    def declare(*words: Any, **settings: Any) -> Any:
        return decorator(*words, **{**settings, "cache": False})

    return declare


if not differences(COMPILING):
    from modtok_cli.base import call_types, parts  # noqa: F401 - numba uses them

    _uncounted["_nrt"] = False
if not differences(STORING):
    from modtok_cli.base import kernel_storage  # noqa: F401 - numba uses it
else:  # kernels on disk may be those of another version of modtok
    njit = _without_cache(njit)
    cfunc = _without_cache(cfunc)


def in_place(function: Any) -> Any:
    """`njit` for a part of kernels that neither makes nor returns arrays.

    numba counts no references to its arguments there, which saves atomic operations and code.
    """
    return njit(**_uncounted)(function)
