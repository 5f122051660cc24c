"""Tables that are quantized: which parts of them are cut by rows, exactly, and which cannot be.

A part is cut where it holds a row, or the scales of a row, at the place of the row: codes of 8 or
4 bits packed along the row, a scale per row or per block of it. In other layouts codes or scales
of several tokens share a number or a block; they are refused.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from modtok_cli.model.architecture.stored_tensors import StoredTensor
from modtok_cli.model.hf.token_tensors import TokenAxis
from modtok_cli.model.hf.weight_files import FLOATS, NewTensor

# Parts with an index per token: of compressed-tensors (FP8, INT8, W4A16, NVFP4), ModelOpt (NVFP4)
# and bitsandbytes of 8 bits.
_BY_ROW = ("weight", "weight_packed", "weight_scale", "SCB", "bias")
# Parts of the whole matrix: one number, or one per input.
_WHOLE = (
    "weight_scale", "weight_scale_2", "weight_global_scale", "input_scale", "input_global_scale",
    "weight_format",
)  # fmt: skip
_BY_INPUT = ("weight_g_idx",)
SIZES = "weight_shape"
"""A part that holds the numbers of rows and columns."""


def is_quantized(parts: Mapping[str, StoredTensor]) -> bool:
    """Whether the tensors of a table, by their names in it, are not just numbers."""
    weight = parts.get("weight")
    codes = weight is not None and weight.dtype not in FLOATS
    return codes or not parts.keys() <= {"weight", "bias"}


def row_parts(parts: Mapping[str, StoredTensor], rows: int) -> dict[str, TokenAxis] | str:
    """The parts of a quantized table that are cut by rows, or why they cannot be.

    `weight_shape` is not among them, see `with_rows`.
    """
    axes = {}
    for name, tensor in parts.items():
        if name in _BY_ROW and tensor.shape[:1] == (rows,):
            axes[name] = TokenAxis(0, rows)
        elif name == SIZES or name in _BY_INPUT:
            continue
        elif name not in _WHOLE or np.prod(tensor.shape) != 1:
            return f"'{tensor.name}' {tensor.dtype} {tensor.shape}"
    if not axes.keys() & {"weight", "weight_packed"}:
        return "its matrix"
    return axes


def with_rows(tensor: StoredTensor, count: int) -> NewTensor:
    """`weight_shape` of a table of so many rows."""
    kind = {"I64": "<i8", "I32": "<i4"}[tensor.dtype]
    shape = np.frombuffer(tensor.data().tobytes(), dtype=kind).copy()
    shape[0] = count
    return NewTensor.of(tensor.dtype, tensor.shape, shape)
