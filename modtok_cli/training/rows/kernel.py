"""Kernels for tables in host memory: AdamW in place, and copies of rows.

An update is one pass: a row's gradient, weight and moments are read once, updated in
registers, and written back. Nothing is gathered. Blocks of neighbouring rows are assigned to
threads, always the same thread for a row, so that no two threads write to one row, and a
row's memory is on the NUMA node of its thread (see `touch`).

bfloat16 values are passed as uint16 bits. Without fast-math, the results equal the same
operations in NumPy, bit for bit, on any number of threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from modtok_cli.base.jit import njit

# Neighbouring rows that one thread owns: 16 rows of 1,024 floats are 16 pages of memory.
BLOCK = 16

_U16 = np.uint32(16)
_ONE = np.uint32(1)
_ROUND = np.uint32(0x7FFF)

_F32 = types.float32[:, ::1]
_BF16 = types.uint16[:, ::1]
_ROWS = types.Array(types.int64, 1, "C", readonly=True)


def _constant(dtype: Any) -> Any:
    return types.Array(dtype, 2, "C", readonly=True)


def _number(x: Any) -> Any:
    """A stored value as float32."""
    return x if isinstance(x, np.floating) else _widened(x)  # type: ignore[no-untyped-call]


def _widened(x):  # type: ignore[no-untyped-def]
    return np.uint32(np.uint32(x) << _U16).view(np.float32)


@overload(_number, inline="always")
def _number_of(x):  # type: ignore[no-untyped-def]
    return (lambda x: x) if isinstance(x, types.Float) else _widened


def _stored(x: Any, like: Any) -> Any:
    """A float32 converted to the dtype of `like`; rounds ties to even, as torch does."""
    return x if like.dtype.kind == "f" else _rounded(x, like)  # type: ignore[no-untyped-call]


def _rounded(x, like):  # type: ignore[no-untyped-def]
    bits = np.float32(x).view(np.uint32)
    return np.uint16(np.uint32(bits + _ROUND + ((bits >> _U16) & _ONE)) >> _U16)


@overload(_stored, inline="always")
def _stored_as(x, like):  # type: ignore[no-untyped-def]
    return (lambda x, like: x) if isinstance(like.dtype, types.Float) else _rounded


@njit(types.boolean(*[types.int64] * 3), cache=True, nogil=True, inline="always")
def is_own(row, part, parts):  # type: ignore[no-untyped-def]
    """Whether a row belongs to thread `part` of `parts`."""
    return row // BLOCK % parts == part


@njit(
    [
        types.void(
            _F32, moments, moments, types.int32[::1], _ROWS, _constant(gradients),
            *[types.int64] * 2, *[types.float64] * 5,
        )
        for moments in (_F32, _BF16)
        for gradients in (types.float32, types.uint16)
    ],
    cache=True,
    nogil=True,
    error_model="numpy",  # checks for division by zero would prevent vectorization
)  # fmt: skip
def update_rows(  # type: ignore[no-untyped-def]
    weight, moment1, moment2, steps, rows, gradients, part, parts,
    lr, beta1, beta2, epsilon, decay,
):  # fmt: skip
    """Row-sparse AdamW in place: one step of the rows of one thread.

    Args:
        weight: (R, d) float32.
        moment1, moment2: (R, d) float32 or the bits of bfloat16. The weight moves by the
            moments before they are rounded.
        steps: (R,) int32, number of updates of each row.
        rows: (n,) int64, unique.
        gradients: (n, d) float32 or the bits of bfloat16, in the order of `rows`.
        part, parts: thread, see `is_own`.
        lr, beta1, beta2, epsilon, decay: AdamW's.
    """
    width = weight.shape[1]
    keep = np.float32(1 - lr * decay)
    new1 = np.float32(1 - beta1)
    old2 = np.float32(beta2)
    new2 = np.float32(1 - beta2)
    small = np.float32(epsilon)
    for i in range(len(rows)):
        row = rows[i]
        if not is_own(row, part, parts):
            continue
        steps[row] += 1
        count = steps[row]
        size = np.float32(lr / (1 - beta1**count))
        scale = np.float32(1 / math.sqrt(1 - beta2**count))
        w, m, v, g = weight[row], moment1[row], moment2[row], gradients[i]
        for j in range(width):
            x = _number(g[j])
            a = _number(m[j])
            a = a + new1 * (x - a)
            b = _number(v[j]) * old2 + new2 * x * x
            w[j] = w[j] * keep - size * a / (np.sqrt(b) * scale + small)
            m[j] = _stored(a, m)
            v[j] = _stored(b, v)


@njit(
    [
        types.void(_F32, _ROWS, out, types.int64, types.int64)
        for out in (_F32, _BF16)
    ],
    cache=True,
    nogil=True,
)  # fmt: skip
def copy_rows(weight, rows, out, part, parts):  # type: ignore[no-untyped-def]
    """Copy rows of a table: weight[rows[i]] to out[i], part `part` of `parts`.

    `out` is (n, d) float32 or the bits of bfloat16.
    """
    width = weight.shape[1]
    first = len(rows) * part // parts
    last = len(rows) * (part + 1) // parts
    for i in range(first, last):
        w, o = weight[rows[i]], out[i]
        for j in range(width):
            o[j] = _stored(w[j], o)


@njit(
    [types.void(array, *[types.int64] * 2) for array in (_F32, _BF16)],
    cache=True,
    nogil=True,
)
def touch(array, part, parts):  # type: ignore[no-untyped-def]
    """Write zeros to the rows of a thread, which places their pages.

    On a machine with several NUMA nodes a page is on the node that writes to it first.
    """
    for row in range(len(array)):
        if is_own(row, part, parts):
            array[row, :] = 0
