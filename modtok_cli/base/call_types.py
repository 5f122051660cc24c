"""Types of calls, resolved once in a process, and without those of constants.

numba infers types in rounds, until nothing changes, and resolves every operation of a function
again in each round: for `+` it tries all that were declared for any types. Of 4,500 resolutions
for the merge loop, 4,000 were of the same operation and types as an earlier one.

While numba infers the types of a loop, a variable that begins as 0 is the literal 0 at first, and
each kernel called with it would be compiled for that too: a third of all compilation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numba.core import dispatcher
from numba.core.types import functions, unliteral

from modtok_cli.base.kernel_cache import is_ours

_Dispatcher: Any = dispatcher.Dispatcher  # numba has partial types
_Function: Any = functions.BaseFunction
_known: dict[object, Any] = {}  # it also keeps the functions, which know what they resolved


def _get_call_type(self: Any, context: Any, args: Sequence[Any], kws: Mapping[str, Any]) -> Any:
    key = self, tuple(args), tuple(sorted(kws.items()))
    found = _known.get(key)
    if found is None:
        found = _known[key] = _numba_get_call_type(self, context, args, kws)
    return found


def _compile(self: Any, sig: Any) -> Any:
    """Compile a function for types, never for one constant as well."""
    if type(sig) is tuple and is_ours(self.py_func):
        sig = tuple(map(unliteral, sig))
    return _numba_compile(self, sig)


_numba_compile, _Dispatcher.compile = _Dispatcher.compile, _compile
_numba_get_call_type, _Function.get_call_type = _Function.get_call_type, _get_call_type
