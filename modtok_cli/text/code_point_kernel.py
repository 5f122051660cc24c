"""Helpers of splitting kernels: the class of the code point at a byte, ASCII letters at once.

They are inlined into the kernels of `text/pretokenizers/` and carry no signature of their own.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modtok_cli.base.jit import njit

Bytes = npt.NDArray[np.uint8]


@njit()
def class_at(data: Bytes, at: int, stop: int, table: Bytes) -> int:
    """Class and byte length of the code point at `at`, as `class * 8 + length`.

    Bytes that are not UTF-8 count as one `OTHER` each, so that no input reads out of bounds.
    `table` is `code_points.class_table()`.
    """
    lead = np.uint32(data[at])
    if lead < 0x80:
        return int(table[lead]) * 8 + 1
    if lead < 0xC2 or lead > 0xF4:
        return 1
    if lead < 0xE0:
        if at + 2 > stop:
            return 1
        point = ((lead & 0x1F) << 6) | (np.uint32(data[at + 1]) & 0x3F)
        return int(table[point]) * 8 + 2
    if lead < 0xF0:
        if at + 3 > stop:
            return 1
        point = (
            ((lead & 0x0F) << 12)
            | ((np.uint32(data[at + 1]) & 0x3F) << 6)
            | (np.uint32(data[at + 2]) & 0x3F)
        )
        return int(table[point]) * 8 + 3
    if at + 4 > stop:
        return 1
    point = (
        ((lead & 0x07) << 18)
        | ((np.uint32(data[at + 1]) & 0x3F) << 12)
        | ((np.uint32(data[at + 2]) & 0x3F) << 6)
        | (np.uint32(data[at + 3]) & 0x3F)
    )
    if point >= 0x110000:
        return 1
    return int(table[point]) * 8 + 4


@njit()
def not_letters(eight: np.uint64) -> np.uint64:
    """Bit 7 of each byte of `eight` that is no ASCII letter; all other bits are 0."""
    high = np.uint64(0x8080808080808080)
    # Lower case, without bit 7: then a letter is what reaches "a" but does not pass "z".
    low = (eight & ~high) | np.uint64(0x2020202020202020)
    from_a = low + np.uint64(0x1F1F1F1F1F1F1F1F)
    past_z = low + np.uint64(0x0505050505050505)
    return ~((from_a ^ past_z) & ~eight) & high


@njit()
def character_length(lead):  # type: ignore[no-untyped-def]
    """Bytes of the UTF-8 character that begins with byte `lead`."""
    if lead < 0xC0:
        return 1
    if lead < 0xE0:
        return 2
    if lead < 0xF0:
        return 3
    return 4
