"""A cache of encoded words and their token ids, of bounded size.

Most words of a text occurred before, so results are kept in an open-addressing table of words
over two arenas, one of word bytes, one of token ids. A full cache is emptied, which costs less
than tracking the age of entries. The functions are inlined into the encoding kernels.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from modtok_cli.base.jit import njit
from modtok_cli.text.bits import load64

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Cache = tuple[Ints, Bytes, Ids, Ints]

# 2^16 slots of 32 bytes; a corpus of 24 MB of English has about twice as many words, of
# which the frequent ones fit.
SLOTS = 1 << 16
WORD_BYTES = 1 << 20
WORD_IDS = 1 << 18
# Longer words are rarely repeated, and would evict the others.
LONGEST_CACHED = 256

_PRIME = np.uint64(0x9E3779B97F4A7C15)
_FOLD = np.uint64(29)


def new_cache() -> Cache:
    """An empty word cache: slots (hash, word start, ids start, both lengths), arenas, fill.

    Pages are touched only as words come, so an unused cache costs next to nothing.
    """
    return (
        np.zeros((SLOTS, 4), dtype=np.int64),
        np.empty(WORD_BYTES, dtype=np.uint8),
        np.empty(WORD_IDS, dtype=np.int32),
        np.zeros(3, dtype=np.int64),
    )


@njit(inline="always")
def _hash(data, start, stop):  # type: ignore[no-untyped-def]
    """Never 0, which marks a free slot."""
    state = np.uint64(stop - start) * _PRIME
    at = start
    while at + 8 <= stop:
        state = (state ^ load64(data, at)) * _PRIME
        state ^= state >> _FOLD
        at += 8
    tail = np.uint64(0)
    while at < stop:
        tail = (tail << np.uint64(8)) | np.uint64(data[at])
        at += 1
    state = (state ^ tail) * _PRIME
    state ^= state >> _FOLD
    return np.int64(state | np.uint64(1))


@njit(inline="always")
def look_up(data, start, stop, slots, word_arena):  # type: ignore[no-untyped-def]
    """The word's hash, and its slot, or the free slot for it.

    It is cached if `slots[slot, 0]` is not 0: its ids are the `slots[slot, 3] & 0xFFFFFFFF`
    of the id arena from `slots[slot, 2]` on.
    """
    size = stop - start
    mask = len(slots) - 1
    code = _hash(data, start, stop)
    slot = (code >> 20) & mask
    while slots[slot, 0] != 0:
        if slots[slot, 0] == code and (slots[slot, 3] >> 32) == size:
            kept = slots[slot, 1]
            same = 0
            while same < size and word_arena[kept + same] == data[start + same]:
                same += 1
            if same == size:
                break
        slot = (slot + 1) & mask
    return code, slot


@njit(inline="always")
def copy_ids(slots, slot, id_arena, ids, end):  # type: ignore[no-untyped-def]
    """Copy the ids of the word in `slot` to `ids[end:]`; returns their end."""
    tokens = slots[slot, 3] & 0xFFFFFFFF
    kept = slots[slot, 2]
    for i in range(tokens):
        ids[end + i] = id_arena[kept + i]
    return end + tokens


@njit(inline="always")
def keep(data, start, stop, ids, first, end, code, slot, slots, word_arena, id_arena, fill):  # type: ignore[no-untyped-def]
    """Put a word with the ids `ids[first:end]` into the free `slot` that `look_up` found."""
    size = stop - start
    tokens = end - first
    if (
        fill[0] >= len(slots) * 3 // 4
        or fill[1] + size > len(word_arena)
        or fill[2] + tokens > len(id_arena)
    ):
        slots[:, 0] = 0
        fill[:] = 0
        slot = (code >> 20) & (len(slots) - 1)
    slots[slot, 0] = code
    slots[slot, 1] = fill[1]
    slots[slot, 2] = fill[2]
    slots[slot, 3] = (size << 32) | tokens
    for i in range(size):
        word_arena[fill[1] + i] = data[start + i]
    for i in range(tokens):
        id_arena[fill[2] + i] = ids[first + i]
    fill[0] += 1
    fill[1] += size
    fill[2] += tokens
