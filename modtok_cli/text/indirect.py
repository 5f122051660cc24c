"""Compiled functions called by their address.

A kernel that takes the function as an address is compiled once for all pre-tokenizers; a kernel
specialized for each function would be compiled as many times, and numba would not find it in
its cache, whose key changes with every process where a function is closed over.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from llvmlite import ir  # type: ignore[import-untyped]
from numba import config, types
from numba.extending import intrinsic

from modtok_cli.base.jit import cfunc

_BYTES: Any = types.CPointer(types.uint8)  # type: ignore[no-untyped-call]
_POSITIONS: Any = types.CPointer(types.int32)  # type: ignore[no-untyped-call]
_INT = types.int64
_WORD_END = _INT(_BYTES, _INT, _INT, _BYTES)
_SPLIT_BLOCK = _INT(_BYTES, _INT, _INT, _BYTES, _POSITIONS)


class Kernel(Protocol):
    """A compiled function; its address is valid while it lives."""

    @property
    def address(self) -> int:
        """Address for the `call_…` functions."""


def _pointer(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.make_array(kind)(context, builder, value).data


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Call the address (first argument) with the others, arrays as pointers to their data."""
    values = [
        _pointer(context, builder, kind, value) if isinstance(kind, types.Array) else value
        for kind, value in zip(signature.args[1:], arguments[1:], strict=True)
    ]
    function = ir.FunctionType(ir.IntType(64), [value.type for value in values])
    return builder.call(builder.inttoptr(arguments[0], function.as_pointer()), values)


def _call_word_end(typing: Any, address: Any, data: Any, start: Any, stop: Any, table: Any) -> Any:
    """`word_end(data, start, stop, table)` of the function at `address`; arrays of uint8."""
    return _INT(_INT, data, _INT, _INT, table), _generate


def _call_split_block(
    typing: Any,
    address: Any,
    data: Any,
    start: Any,
    stop: Any,
    table: Any,
    ends: Any,
) -> Any:
    """`split_block(data, start, stop, table, ends)` of the function at `address`."""
    return _INT(_INT, data, _INT, _INT, table, ends), _generate


def compile_word_end(function: Callable[..., int]) -> Kernel:
    """A `word_end`, compiled or from numba's cache."""
    return cast(Kernel, cfunc(_WORD_END, cache=True)(function))


def compile_split_block(function: Callable[..., int]) -> Kernel:
    """A `split_block`, compiled or from numba's cache."""
    return cast(Kernel, cfunc(_SPLIT_BLOCK, cache=True)(function))


call_word_end: Any = intrinsic(_call_word_end)
call_split_block: Any = intrinsic(_call_split_block)


class _Plain:
    """A function that runs as the Python it is written in; its address is its place here."""

    functions: list[Callable[..., int]] = []  # noqa: RUF012 - shared by all on purpose

    def __init__(self, function: Callable[..., int]) -> None:
        self.functions.append(function)
        self.address = len(self.functions)


def _call_plain(address: int, *arguments: Any) -> int:
    return _Plain.functions[address - 1](*arguments)


# Kernels run as plain Python, for coverage and debugging.
if config.DISABLE_JIT:  # type: ignore[attr-defined]  # made at run time
    compile_word_end = compile_split_block = _Plain
    call_word_end = call_split_block = _call_plain
