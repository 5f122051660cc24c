"""Arrays as planes of bytes, which compress better."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def width_of(largest: int) -> int:
    """Bytes of a number."""
    return max(1, (largest.bit_length() + 7) // 8)


def byte_planes(values: npt.NDArray[Any], width: int) -> list[bytes]:
    """All lowest bytes, then all second bytes, and so on."""
    return [
        (values >> values.dtype.type(8 * plane) & values.dtype.type(0xFF))
        .astype(np.uint8)
        .tobytes()
        for plane in range(width)
    ]


def packed_bits(members: npt.NDArray[np.bool_]) -> list[bytes]:
    """Rows of bits in planes of a byte for eight columns."""
    packed = np.packbits(members, axis=1, bitorder="little")
    return [np.ascontiguousarray(column).tobytes() for column in packed.T]
