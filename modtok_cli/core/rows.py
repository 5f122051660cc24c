"""Rows of tables in host memory: AdamW in place, and copies.

bfloat16 values are uint16 bits. Results equal the same operations in NumPy, bit for bit, on any
number of threads.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import Int32Array, Int64Array
from modtok_cli.core.binding import address, native

Rows = npt.NDArray[Any]
"""(n, d) float32, or the bits of bfloat16 as uint16."""


class _Update(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in (
            "weight", "moment1", "moment2", "steps", "rows", "gradients",
        )),
        *((name, ctypes.c_int64) for name in (
            "total", "width", "moments_bf16", "gradients_bf16", "threads",
        )),
        *((name, ctypes.c_double) for name in ("lr", "beta1", "beta2", "epsilon", "decay")),
    )  # fmt: skip


def _is_bf16(array: Rows) -> bool:
    return array.dtype == np.uint16


def _place(array: Rows, shape: tuple[int, ...]) -> int | None:
    if array.shape != shape:
        raise ValueError(f"expected rows of shape {shape}, not {array.shape}")
    return address(array, np.uint16 if _is_bf16(array) else np.float32)


def update_rows(
    weight: Rows,
    moment1: Rows,
    moment2: Rows,
    steps: Int32Array,
    rows: Int64Array,
    gradients: Rows,
    threads: int,
    lr: float,
    beta1: float,
    beta2: float,
    epsilon: float,
    decay: float,
) -> None:
    """Row-sparse AdamW in place: one step of some rows, by so many threads.

    Shapes: weight (R, d) float32; moment1, moment2 (R, d), both of one type; the weight moves by
    the moments before they are rounded; steps (R,) int32, number of updates of each row; rows (n,)
    int64, unique; gradients (n, d), in the order of `rows`.
    """
    count, width = weight.shape
    if len(rows) and (int(rows.min()) < 0 or int(rows.max()) >= count):
        raise ValueError(f"expected rows from 0 to {count - 1}")
    if moment1.dtype != moment2.dtype:
        raise TypeError("expected moments of one type")
    update = _Update(
        address(weight, np.float32), _place(moment1, weight.shape), _place(moment2, weight.shape),
        address(steps, np.int32, count), address(rows, np.int64),
        _place(gradients, (len(rows), width)), len(rows), width, _is_bf16(moment1),
        _is_bf16(gradients), threads, lr, beta1, beta2, epsilon, decay,
    )  # fmt: skip
    native.mt_update_rows(ctypes.byref(update))


def copy_rows(weight: Rows, rows: Int64Array, out: Rows, threads: int) -> None:
    """Copy rows of a table (R, d) float32: weight[rows[i]] to out[i]."""
    count, width = weight.shape
    if len(rows) and (int(rows.min()) < 0 or int(rows.max()) >= count):
        raise ValueError(f"expected rows from 0 to {count - 1}")
    native.mt_copy_rows(
        address(weight, np.float32), width, address(rows, np.int64), len(rows),
        _place(out, (len(rows), width)), _is_bf16(out), threads,
    )  # fmt: skip


def touch(array: Rows, threads: int) -> None:
    """Write zeros to all rows, each by the thread that updates it, which places their pages.

    On a machine with several NUMA nodes a page is on the node that writes to it first.
    """
    place = _place(array, array.shape)
    native.mt_touch_rows(place, len(array), array.strides[0], threads)
