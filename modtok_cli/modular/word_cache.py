"""A cache of encoded words and their token ids, of bounded size.

Most words of a text occurred before. A slot is half a cache line: the key of the word (see
`text.word_key_kernel`), its size and number of tokens, and up to three ids, so that nearly all
look-ups touch nothing else. Longer words and longer lists of ids are in arenas. A cache grows up to
a limit; one that is full is emptied then, which costs less than tracking the age of entries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.text.bits import load64
from modtok_cli.text.word_key_kernel import (
    MASKS,
    PADDING,
    SHORT,
    long_hash,
    same_bytes,
    slot_hash,
)

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]

# 1 MB of slots at first, touched only as words come; 16 MB at most, for 330,000 words.
FIRST_SLOTS = 1 << 15
MOST_SLOTS = 1 << 19
_GROWTH = 4
# Longer words are rarely repeated, and would fill the arenas.
LONGEST_CACHED = 256

# Numbers of 64 bits in a slot: two of key, sizes with the first id, the second and third id.
WIDTH = 4
META = 2
PAIR = 3
INLINE = 3
SIZE = np.uint64(0xFFFF)
TOKENS = np.uint64(16)
HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)
_ZERO = np.uint64(0)


class Table(NamedTuple):
    """The arrays of a cache.

    slots (4 * 2^n,) uint64: two numbers of key; size | tokens << 16 | first id << 32 (0: free); the
    other two ids, or the place of the ids in `ids` if they are more than 3. words: arena of the
    bytes of words of more than 16 bytes; ids: arena of long lists of ids. fill (3,) int64: slots,
    bytes and ids in use.
    """

    slots: npt.NDArray[np.uint64]
    words: Bytes
    ids: Ids
    fill: Ints
    masks: npt.NDArray[np.uint64]


TABLE = types.NamedTuple(  # type: ignore[no-untyped-call]
    (types.uint64[::1], types.uint8[::1], types.int32[::1], types.int64[::1], types.uint64[::1]),
    Table,
)


def new_table(slots: int = FIRST_SLOTS) -> Table:
    """An empty cache. Pages are touched only as words come."""
    return Table(
        np.zeros(slots * WIDTH, dtype=np.uint64),
        np.empty(8 * slots + PADDING, dtype=np.uint8),
        np.empty(2 * slots, dtype=np.int32),
        np.zeros(3, dtype=np.int64),
        MASKS,
    )


def with_room(table: Table, offsets: Ints) -> Table:
    """`table` if words with these offsets fit, else a larger one with its words, or an empty one.

    It is empty if `table` has `MOST_SLOTS`.
    """
    words, sizes = len(offsets) - 1, np.diff(offsets)
    size = int(sizes[sizes <= LONGEST_CACHED].sum())
    if _fits(table, table.fill, words, size):
        return table
    slots = len(table.slots) // WIDTH
    grows = slots < MOST_SLOTS
    more = new_table(min(_GROWTH * slots, MOST_SLOTS) if grows else slots)
    while not _fits(more, table.fill if grows else more.fill, words, size):
        more = new_table(2 * len(more.slots) // WIDTH)
    if grows:
        _move(table, more)
    return more


def _fits(table: Table, fill: Ints, words: int, size: int) -> bool:
    """Whether `words` words of `size` bytes together have room beside what `fill` says."""
    return bool(
        fill[0] + words <= len(table.slots) // WIDTH * 5 // 8
        and fill[1] + size + PADDING <= len(table.words)
        and fill[2] + size <= len(table.ids)
    )


@njit(cache=True, nogil=True)
def word_key(data, start, stop, masks):  # type: ignore[no-untyped-def]
    """The key of the word data[start:stop], two numbers."""
    size = stop - start
    if size <= SHORT:
        first = load64(data, start) & masks[min(size, 8)]
        second = load64(data, start + 8) & masks[max(size - 8, 0)]
    else:
        first = long_hash(data, start, stop, masks)
        second = _ZERO
    return first, second


@njit(cache=True, nogil=True)
def slot_bits(slots):  # type: ignore[no-untyped-def]
    """Binary logarithm of the number of slots."""
    bits = 0
    while (WIDTH << bits) < len(slots):
        bits += 1
    return bits


@njit(cache=True, nogil=True)
def find_word(data, start, stop, place, slots, words, masks):  # type: ignore[no-untyped-def]
    """The slot of data[start:stop], or the free one where it belongs, from `place` on.

    `encode_kernel.advance` has the case of a short word in place of a call, which would take
    several times as long.
    """
    size = stop - start
    first, second = word_key(data, start, stop, masks)
    wrap = len(slots) - 1
    while True:
        meta = slots[place + META]
        if meta == _ZERO:
            break
        if np.int64(meta & SIZE) == size and slots[place] == first:
            if size <= SHORT:
                if slots[place + 1] == second:
                    break
            else:
                kept: Any = np.int64(slots[place + 1])
                if same_bytes(words, kept, data, start, size, masks):
                    break
        place = (place + WIDTH) & wrap
    return place


@njit(cache=True, nogil=True)
def copy_ids(slots, place, id_arena, ids, end):  # type: ignore[no-untyped-def]
    """Copy the ids of the word in the slot at `place` to `ids[end:]`, which has two to spare."""
    meta, pair = slots[place + META], slots[place + PAIR]
    tokens = np.int64((meta >> TOKENS) & SIZE)
    if tokens <= INLINE:
        ids[end] = np.int32(meta >> HALF)
        ids[end + 1] = np.int32(pair & LOW)
        ids[end + 2] = np.int32(pair >> HALF)
    else:
        kept = np.int64(pair)
        for i in range(tokens):
            ids[end + i] = id_arena[kept + i]
    return end + tokens


@njit(
    types.void(
        types.Array(types.uint8, 1, "C", readonly=True),
        types.Array(types.int64, 1, "C", readonly=True),
        types.Array(types.int32, 1, "C", readonly=True),
        types.Array(types.int64, 1, "C", readonly=True),
        TABLE,
    ),
    cache=True,
    nogil=True,
)
def keep(data: Bytes, offsets: Ints, ids: Ids, id_offsets: Ints, table: Table) -> None:
    """Store words data[offsets[i]:offsets[i + 1]] with ids ids[id_offsets[i]:id_offsets[i + 1]].

    There is room, see `with_room`; `data` goes on for `PADDING` bytes.
    """
    slots, masks, fill = table.slots, table.masks, table.fill
    word_arena, id_arena = table.words, table.ids
    shift = np.uint64(64 - slot_bits(slots))
    for word in range(len(offsets) - 1):
        start, stop = offsets[word], offsets[word + 1]
        size = stop - start
        if size > LONGEST_CACHED:
            continue
        first, second = word_key(data, start, stop, masks)
        place = np.int64(slot_hash(first, second, size) >> shift) * WIDTH
        place = find_word(data, start, stop, place, slots, word_arena, masks)
        if slots[place + META] != _ZERO:
            continue  # twice among these words
        tokens = id_offsets[word + 1] - id_offsets[word]
        slots[place] = first
        slots[place + 1] = second
        meta = np.uint64(size) | (np.uint64(tokens) << TOKENS)
        fill[0] += 1
        if size > SHORT:
            slots[place + 1] = np.uint64(fill[1])
            for i in range(size):
                word_arena[fill[1] + i] = data[start + i]
            fill[1] += size
        pair = _ZERO
        if tokens > INLINE:
            pair = np.uint64(fill[2])
            for i in range(tokens):
                id_arena[fill[2] + i] = ids[id_offsets[word] + i]
            fill[2] += tokens
        else:
            for i in range(tokens):
                token = np.uint64(np.uint32(ids[id_offsets[word] + i]))
                if i == 0:
                    meta |= token << HALF
                else:
                    pair |= token << (HALF * np.uint64(i - 1))
        slots[place + META] = meta
        slots[place + PAIR] = pair


@njit(types.void(TABLE, TABLE), cache=True, nogil=True)
def _move(old: Table, new: Table) -> None:
    """Put all words of `old` into `new`, which is empty and larger."""
    slots, more = old.slots, new.slots
    wrap = len(more) - 1
    shift = np.uint64(64 - slot_bits(more))
    for source in range(0, len(slots), WIDTH):
        size = np.int64(slots[source + META] & SIZE)
        if size == 0:
            continue
        # A long word went into the hash without its place in the arena.
        second = slots[source + 1] if size <= SHORT else _ZERO
        place = np.int64(slot_hash(slots[source], second, size) >> shift) * WIDTH
        while more[place + META] != _ZERO:
            place = (place + WIDTH) & wrap
        for i in range(WIDTH):
            more[place + i] = slots[source + i]
    words, ids, more_words, more_ids = old.words, old.ids, new.words, new.ids
    for i in range(old.fill[1]):
        more_words[i] = words[i]
    for i in range(old.fill[2]):
        more_ids[i] = ids[i]
    for i in range(3):
        new.fill[i] = old.fill[i]
