"""Keys of words in hash tables, shared by the counter and the cache of encoded words.

Words of up to 16 bytes, nearly all of them, are their own key, padded with zeros, so a look-up
touches nothing but the slot. For longer ones the key is a hash, and the word's bytes are compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from modtok_cli.base.jit import njit
from modtok_cli.text.bits import load64

Bytes = npt.NDArray[np.uint8]
Masks = npt.NDArray[np.uint64]

PADDING = 64
"""Bytes that must follow the text in a buffer: kernels load up to 64 bytes at a time."""

SHORT = 16
MASKS = np.array([(1 << (8 * n)) - 1 for n in range(9)], dtype=np.uint64)
"""Mask of the first n bytes of a little-endian number, n = 0 … 8; an argument of the kernels."""

# Odd multipliers with well-mixed bits (of the golden ratio and of square roots of primes).
_MIX_A = np.uint64(0x9E3779B97F4A7C15)
_MIX_B = np.uint64(0x6A09E667F3BCC909)
_MIX_C = np.uint64(0xBB67AE8584CAA73B)
_ZERO = np.uint64(0)


@njit()
def slot_hash(first: Any, second: Any, length: Any) -> Any:
    """Hash of a key: two halves and the word's length in bytes."""
    mixed = first * _MIX_A + (second ^ np.uint64(length)) * _MIX_B
    mixed ^= mixed >> np.uint64(31)
    return mixed * _MIX_C


@njit()
def long_hash(data: Bytes, start: int, stop: int, masks: Masks) -> Any:
    """Hash of data[start:stop], of any length."""
    mixed: Any = _MIX_C
    while start + 8 <= stop:
        mixed = (mixed ^ load64(data, start)) * _MIX_A
        mixed ^= mixed >> np.uint64(29)
        start += 8
    mixed = (mixed ^ (load64(data, start) & masks[stop - start])) * _MIX_B
    return mixed ^ (mixed >> np.uint64(31))


@njit()
def same_bytes(a: Bytes, a_start: int, b: Bytes, b_start: int, size: int, masks: Masks) -> Any:
    """Whether `size` bytes of a and b are equal; both can be read for 8 bytes beyond."""
    done = 0
    while done + 8 <= size:
        if load64(a, a_start + done) != load64(b, b_start + done):
            return False
        done += 8
    differ = load64(a, a_start + done) ^ load64(b, b_start + done)
    return (differ & masks[size - done]) == _ZERO
