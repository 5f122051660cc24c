"""A hash table from token strings to ids: whether the result of a merge exists already."""

from __future__ import annotations

import numpy as np

from modtok_cli.base.jit import in_place, njit

_PRIME = np.uint64(0x100000001B3)
_SEED = np.uint64(0xCBF29CE484222325)


@in_place
def _string_home(data, start, stop, bits):  # type: ignore[no-untyped-def]
    value = _SEED
    for place in range(start, stop):
        value = (value ^ np.uint64(data[place])) * _PRIME
    value ^= value >> np.uint64(29)
    return np.int64((value * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(64 - bits))


@in_place
def find_string(data, offsets, slots, bits, start, stop):  # type: ignore[no-untyped-def]
    """Slot of the token whose bytes are `data[start:stop]`, or the empty slot for it."""
    mask = (1 << bits) - 1
    slot = _string_home(data, start, stop, bits)
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
def index_strings(data, offsets, first, tokens, room):  # type: ignore[no-untyped-def]
    """Slots of tokens `first` … `tokens` - 1, with space for `room` more: (slots, bits)."""
    bits = 10
    while (1 << bits) < 2 * (tokens + room):
        bits += 1
    slots = np.full(1 << bits, -1, dtype=np.int32)
    for token in range(first, tokens):
        start, stop = offsets[token], offsets[token + 1]
        slots[find_string(data, offsets, slots, bits, start, stop)] = token
    return slots, bits
