"""A cache of encoded words and their token ids, of bounded size.

Most words of a text occurred before. A slot is half a cache line: the key of the word (see
`text.word_key_kernel`), its size and number of tokens, and up to three ids, so that nearly all
look-ups touch nothing else. Longer words and longer lists of ids are in arenas. A table that is
full is replaced by an empty one, the first by a larger one: that costs less than tracking the age
of entries, and less than loading a kernel that moves them.

All threads share a cache. One thread at a time adds words; others look up meanwhile, without a
lock: a slot is written before its `META`, which says that it is in use.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.learn.array_types import I32, I64, U8, U64
from modtok_cli.text.bits import load64, load_acquire, prefetch, store_release
from modtok_cli.text.word_key_kernel import (
    MASKS,
    PADDING,
    SHORT,
    long_hash,
    same_bytes,
)

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]

# 1 MB of slots at first, for 20,000 words; then 16 MB, for 330,000.
FIRST_SLOTS = 1 << 15
MOST_SLOTS = 1 << 19
# Bytes of text that fill the first table.
ENOUGH_TEXT = 1 << 20
# Longer words are rarely repeated, and would fill the arenas.
LONGEST_CACHED = 256

# Numbers of 64 bits in a slot: two of key, sizes with the first id, the second and third id.
WIDTH = 4
META = 2
PAIR = 3
INLINE = 3
_LINE = 64  # bytes of a cache line
_AHEAD = 8  # words that are stored before the one whose slot is fetched
SIZE = np.uint64(0xFFFF)
TOKENS = np.uint64(16)
HALF = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)
_ZERO = np.uint64(0)
_META, _WIDTH = np.uint64(META), np.uint64(WIDTH)


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


def new_table(slots: int) -> Table:
    """An empty cache. Pages are touched only as words come."""
    room = np.zeros(slots * WIDTH + _LINE // 8, dtype=np.uint64)
    begin = -room.ctypes.data % _LINE // 8  # a slot is never in two cache lines
    return Table(
        room[begin : begin + slots * WIDTH],
        np.empty(max(8 * slots, LONGEST_CACHED) + PADDING, dtype=np.uint8),
        np.empty(max(2 * slots, LONGEST_CACHED), dtype=np.int32),
        np.zeros(3, dtype=np.int64),
        MASKS,
    )


class WordCache:
    """A cache for any number of threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._table: Table | None = None

    def __reduce__(self) -> tuple[type[WordCache], tuple[()]]:
        return WordCache, ()  # a copy begins empty

    @property
    def is_empty(self) -> bool:
        """Whether it never held a word, or was cleared."""
        return self._table is None

    @property
    def table(self) -> Table:
        """The table to look words up in. It stays valid when the cache has a larger one."""
        table = self._table
        if table is None:
            table = self._table = new_table(FIRST_SLOTS)
        return table

    def expect(self, size: int) -> None:
        """Be ready for the words of `size` bytes of text: many make a small table useless."""
        if size > ENOUGH_TEXT:
            with self._lock:
                if self._table is None:
                    self._table = new_table(MOST_SLOTS)

    def add(
        self,
        data: Bytes,
        starts: Ints,
        stops: Ints,
        hashes: npt.NDArray[np.uint64],
        ids: Ids,
        id_offsets: Ints,
    ) -> None:
        """Store words; arguments as of `keep`."""
        with self._lock:
            table = self.table
            done = 0
            words = data, starts, stops, hashes, ids, id_offsets
            while (done := keep(*words, done, table)) < len(starts):
                table = new_table(MOST_SLOTS)
            self._table = table

    def clear(self) -> None:
        """Free the memory."""
        self._table = None


@njit()
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


@njit()
def slot_bits(slots):  # type: ignore[no-untyped-def]
    """Binary logarithm of the number of slots."""
    bits = 0
    while (WIDTH << bits) < len(slots):
        bits += 1
    return bits


@njit()
def find_word(data, start, size, first, second, at, slots, words, masks):  # type: ignore[no-untyped-def]
    """The slot of a word, or the free one where it belongs, from `at` on; its `META`.

    The word is data[start:start + size], first and second its key. `encode_kernel.advance` has the
    case of a short word in place of a call, which would take several times as long.
    """
    wrap = np.uint64(len(slots) - 1)
    while True:
        meta = load_acquire(slots, at + _META)
        if meta == _ZERO:
            break
        if np.int64(meta & SIZE) == size and slots[at] == first:
            if size <= SHORT:
                if slots[at + np.uint64(1)] == second:
                    break
            else:
                kept: Any = np.int64(slots[at + np.uint64(1)])
                if same_bytes(words, kept, data, start, size, masks):
                    break
        at = (at + _WIDTH) & wrap
    return at, meta


@njit(
    types.int64(U8, I64, I64, U64, I32, I64, types.int64, TABLE),
    cache=True,
    nogil=True,
)
def keep(
    data: Bytes,
    starts: Ints,
    stops: Ints,
    hashes: npt.NDArray[np.uint64],
    ids: Ids,
    id_offsets: Ints,
    first_word: int,
    table: Table,
) -> int:
    """Store words data[starts[i]:stops[i]] with ids ids[id_offsets[i]:id_offsets[i + 1]].

    hashes (W,) uint64: their `slot_hash`. From word `first_word` on, as long as there is room;
    gives the number of the first word for which there is none, or that of all words. `data` goes
    on for `PADDING` bytes.
    """
    slots, masks, fill = table.slots, table.masks, table.fill
    word_arena, id_arena = table.words, table.ids
    shift = np.uint64(64 - slot_bits(slots))
    most = (len(slots) // WIDTH) * 5 // 8
    for word in range(first_word, len(starts)):
        if word + _AHEAD < len(starts):
            prefetch(slots, (hashes[word + _AHEAD] >> shift) * _WIDTH)
        start, stop = starts[word], stops[word]
        size = stop - start
        if size > LONGEST_CACHED:
            continue
        first, second = word_key(data, start, stop, masks)
        at = (hashes[word] >> shift) * _WIDTH
        at, meta = find_word(data, start, size, first, second, at, slots, word_arena, masks)
        if meta != _ZERO:
            continue  # twice among these words, or added by another thread
        tokens = id_offsets[word + 1] - id_offsets[word]
        if (
            fill[0] == most
            or fill[1] + size + PADDING > len(word_arena)
            or fill[2] + tokens > len(id_arena)
        ):
            return int(word)
        place = np.int64(at)
        meta = np.uint64(size) | (np.uint64(tokens) << TOKENS)
        fill[0] += 1
        if size > SHORT:
            second = np.uint64(fill[1])
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
        slots[place] = first
        slots[place + 1] = second
        slots[place + PAIR] = pair
        store_release(slots, at + _META, meta)
    return len(starts)
