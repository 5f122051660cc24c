"""The operations of `bits` in plain Python, for uncompiled kernels (coverage, debugging).

Tests compare the compiled operations with these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

LANES = 32


def load64(data: Any, at: int) -> np.uint64:
    """The eight bytes `data[at:at + 8]` as one little-endian uint64."""
    return np.uint64(int.from_bytes(data[at : at + 8].tobytes(), "little"))


def trailing_zeros(value: Any) -> int:
    """Number of zero bits below the lowest one of a number that is not 0."""
    number = int(value)
    return (number & -number).bit_length() - 1


def leading_zeros(value: Any) -> np.uint64:
    """Number of zero bits above the highest one of a 64-bit number that is not 0."""
    return np.uint64(64 - int(value).bit_length())


def choose(condition: Any, one: Any, other: Any) -> np.uint64:
    """`one` if the condition holds, else `other`."""
    return np.uint64(one if condition else other)


def highest8(data: Any, at: Any) -> np.uint64:
    """The greatest of data[at:at + 8]."""
    return np.uint64(max(data[int(at) : int(at) + 8]))


def value_of(data: Any, at: Any, key: Any) -> np.uint64:
    """data[at + 4 + i] for the i below 4 with data[at + i] == key, else 0."""
    keys = data[int(at) : int(at) + 4].tolist()
    return np.uint64(data[int(at) + 4 + keys.index(int(key))] if int(key) in keys else 0)


def load_acquire(data: Any, at: Any) -> np.uint64:
    """data[at]."""
    return np.uint64(data[int(at)])


def store_release(data: Any, at: Any, value: Any) -> None:
    """Set data[at]."""
    data[int(at)] = value


def prefetch(data: Any, at: int) -> None:
    """No effect."""


def copy_until(data: Any, at: int, out: Any, to: int) -> np.uint32:
    """Copy 32 bytes; a bit for each that is a quote, a backslash or a control character."""
    block = data[at : at + LANES]
    out[to : to + LANES] = block
    return _bits((block == ord('"')) | (block == ord("\\")) | (block < ord(" ")))


def utf8_faults(data: Any, at: int) -> np.uint32:
    """Bytes of data[at:at + 32] that cannot follow the three before them, as bits."""
    byte, one, two, three = (data[at - back : at - back + LANES] for back in range(4))
    follows = (byte & 0xC0) == 0x80
    due = (one >= 0xC0) | (two >= 0xE0) | (three >= 0xF0)
    wrong = (follows != due) | (byte == 0xC0) | (byte == 0xC1) | (byte >= 0xF5)
    wrong |= (one == 0xE0) & (byte < 0xA0)
    wrong |= (one == 0xED) & (byte >= 0xA0)
    wrong |= (one == 0xF0) & (byte < 0x90)
    wrong |= (one == 0xF4) & (byte >= 0x90)
    return _bits(wrong)


def text_masks(data: Any, at: int) -> tuple[np.uint64, ...]:
    """Of data[at:at + 64]: letters, numbers, white space, spaces, apostrophes, beyond ASCII."""
    block = data[at : at + 64].astype(np.uint8)
    sets = (
        ((block | 32) - np.uint8(97)) < 26,
        (block - np.uint8(48)) < 10,
        ((block - np.uint8(9)) < 5) | (block == 32),
        block == 32,
        block == 39,
        block >= 128,
    )
    return tuple(
        np.uint64(int.from_bytes(np.packbits(each, bitorder="little").tobytes(), "little"))
        for each in sets
    )


def _bits(mask: Any) -> np.uint32:
    return np.uint32(int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little"))
