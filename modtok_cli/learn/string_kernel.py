"""A hash table from token strings to ids: whether the result of a merge exists already."""

from __future__ import annotations

import numpy as np

from modtok_cli.base.jit import in_place, njit

_PRIME = np.uint64(0x100000001B3)
_SEED = np.uint64(0xCBF29CE484222325)


@in_place
def _string_home(data, start, stop):  # type: ignore[no-untyped-def]
    value = _SEED
    for place in range(start, stop):
        value = (value ^ np.uint64(data[place])) * _PRIME
    value ^= value >> np.uint64(29)
    return np.int64((value * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(32))


@in_place
def find_string(data, offsets, slots, start, stop):  # type: ignore[no-untyped-def]
    """Slot of the token whose bytes are `data[start:stop]`, or the empty slot for it."""
    mask = len(slots) - 1
    slot = _string_home(data, start, stop) & mask
    length = stop - start
    while True:
        token = slots[slot]
        if token < 0:
            return slot
        first = offsets[token]
        if offsets[token + 1] - first == length:
            same = True
            for step in range(length):
                if data[first + step] != data[start + step]:
                    same = False
                    break
            if same:
                return slot
        slot = (slot + 1) & mask


@njit()
def index_strings(data, offsets, first, tokens, capacity):  # type: ignore[no-untyped-def]
    """Slots of tokens `first` … `tokens` - 1, (2^n,) int32, for up to `capacity` tokens."""
    size = 1024
    while size < 2 * capacity:
        size *= 2
    slots = np.full(size, -1, dtype=np.int32)
    for token in range(first, tokens):
        start, stop = offsets[token], offsets[token + 1]
        slots[find_string(data, offsets, slots, start, stop)] = token
    return slots
