"""Kernels of the word counter: an open-addressing table of words, and its sorted listing.

A slot is four 64-bit numbers, half a cache line: two of key, the word's length in bytes
(0: free), its count. See `word_key_kernel` for the key; that of a longer word is its hash and
the place of its bytes in the arena.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.text.bits import load64, prefetch
from modtok_cli.text.counts_kernel import compare
from modtok_cli.text.split_kernel import MOST_WORDS, next_block
from modtok_cli.text.word_key_kernel import PADDING, SHORT, long_hash, same_bytes, slot_hash

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int32]
Slots = npt.NDArray[np.uint64]

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
_TWO = np.uint64(2)
_THREE = np.uint64(3)
_FOUR = np.uint64(4)

# Indices of the numbers that a call of `count_block_run` takes up and leaves behind.
DOCUMENT, POSITION, WORDS, ARENA, NEED = range(5)


_FEW = 24  # words with equal prefixes: so many are sorted by insertion
_AHEAD = 8  # words are prefetched so many places ahead


_READ_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_BYTES = types.uint8[::1]
_INTS = types.int64[::1]
_READ_INTS = types.Array(types.int64, 1, "C", readonly=True)
_SLOTS = types.uint64[::1]


@njit(
    types.void(
        _READ_BYTES,
        _INTS,
        _INTS,
        _INTS,
        _READ_INTS,
        _READ_BYTES,
        _SLOTS,
        _BYTES,
        _INTS,
        _SLOTS,
        types.int32[::1],
        _SLOTS,
    ),
    cache=True,
    nogil=True,
)
def count_documents_into(
    data: Bytes,
    starts: Ints,
    stops: Ints,
    weights: Ints,
    entry: Ints,
    table: Bytes,
    slots: Slots,
    arena: Bytes,
    state: Ints,
    masks: Slots,
    ends: Positions,
    places: Slots,
) -> None:
    """Add weights[d] to each word of data[starts[d]:stops[d]], for every document d.

    Stops before a block for which the table or the arena might lack room, with the number
    of bytes the arena needs in state[NEED] (0 when all is done); the caller makes room and
    calls again. `data` goes on for `PADDING` bytes after the last document.

    Shapes: data (B,) uint8; starts, stops, weights (D,) int64; entry and table a
    `pretokenizer.Splitter`; slots (4 * 2^n,) uint64; state (5,) int64; ends and places are
    scratch of `split_kernel.MOST_WORDS`.
    """
    capacity = len(slots) // 4
    limit = capacity * 5 // 8
    wrap = np.uint64(len(slots) - 1)
    bits = 0
    while (1 << bits) < capacity:
        bits += 1
    shift = np.uint64(64 - bits)
    used = state[WORDS]
    arena_used = state[ARENA]
    document = state[DOCUMENT]
    position = state[POSITION]
    state[NEED] = 0
    while document < len(starts):
        stop = stops[document]
        if position < starts[document]:
            position = starts[document]
        weight = np.uint64(weights[document])
        while position < stop:
            words = next_block(data, position, stop, entry, table, ends)
            length = ends[words - 1]
            if used + words > limit or arena_used + length + PADDING > len(arena):
                state[NEED] = arena_used + length + PADDING
                state[WORDS] = used
                state[ARENA] = arena_used
                state[DOCUMENT] = document
                state[POSITION] = position
                return
            # First all places, so that the table's cache lines are on their way when needed.
            begin = position
            for word in range(words):
                end = position + ends[word]
                size = end - begin
                if size <= SHORT:
                    first = load64(data, begin) & masks[min(size, 8)]
                    second = load64(data, begin + 8) & masks[max(size - 8, 0)]
                else:
                    first = long_hash(data, begin, end, masks)
                    second = _ZERO
                place = (slot_hash(first, second, size) >> shift) * _FOUR
                places[word] = place
                prefetch(slots, np.int64(place))
                begin = end
            begin = position
            for word in range(words):
                end = position + ends[word]
                size = end - begin
                if size <= SHORT:
                    first = load64(data, begin) & masks[min(size, 8)]
                    second = load64(data, begin + 8) & masks[max(size - 8, 0)]
                    place = places[word]
                    while True:
                        # One test, nearly always true, in place of three.
                        unlike = slots[place] ^ first
                        unlike |= slots[place + _ONE] ^ second
                        unlike |= slots[place + _TWO] ^ np.uint64(size)
                        if unlike == _ZERO:
                            break
                        if slots[place + _TWO] == _ZERO:
                            slots[place] = first
                            slots[place + _ONE] = second
                            slots[place + _TWO] = np.uint64(size)
                            used += 1
                            break
                        place = (place + _FOUR) & wrap
                else:
                    first = long_hash(data, begin, end, masks)
                    place = places[word]
                    while True:
                        if slots[place + _TWO] == np.uint64(size) and slots[place] == first:
                            kept: Any = np.int64(slots[place + _ONE])
                            if same_bytes(arena, kept, data, begin, size, masks):
                                break
                        elif slots[place + _TWO] == _ZERO:
                            slots[place] = first
                            slots[place + _ONE] = np.uint64(arena_used)
                            slots[place + _TWO] = np.uint64(size)
                            for i in range(size):
                                arena[arena_used + i] = data[begin + i]
                            arena_used += size
                            used += 1
                            break
                        place = (place + _FOUR) & wrap
                slots[place + _THREE] += weight
                begin = end
            position += length
        document += 1
        position = 0
    state[WORDS] = used
    state[ARENA] = arena_used
    state[DOCUMENT] = document
    state[POSITION] = 0


@njit(types.void(_SLOTS, _SLOTS), cache=True, nogil=True)
def move_slots(old: Slots, new: Slots) -> None:
    """Put every filled slot of `old` in its place in `new`, which is empty and larger."""
    capacity = len(new) // 4
    wrap = np.uint64(len(new) - 1)
    bits = 0
    while (1 << bits) < capacity:
        bits += 1
    shift = np.uint64(64 - bits)
    for source in range(0, len(old), 4):
        size = old[source + 2]
        if size != 0:
            # A long word went into the hash without its place in the arena.
            second = old[source + 1] if size <= np.uint64(SHORT) else _ZERO
            hashed = slot_hash(old[source], second, size)
            place = (hashed >> shift) * _FOUR
            while new[place + _TWO] != 0:
                place = (place + _FOUR) & wrap
            for i in range(4):
                new[place + np.uint64(i)] = old[source + i]


@njit(types.void(_SLOTS, _BYTES, _BYTES, _INTS, _INTS, _SLOTS), cache=True, nogil=True)
def list_words(
    slots: Slots, arena: Bytes, data: Bytes, offsets: Ints, counts: Ints, prefixes: Slots
) -> None:
    """Copy the words out of the table in slot order, with their first eight bytes as a number.

    data needs room for all words and `PADDING` more; offsets (W + 1,), counts, prefixes (W,).
    """
    word = 0
    filled = 0
    offsets[0] = 0
    for place in range(0, len(slots), 4):
        size: Any = np.int64(slots[place + 2])
        if size == 0:
            continue
        if size <= SHORT:
            for i in range(size):
                half = slots[place + (i >> 3)]
                data[filled + i] = np.uint8(half >> np.uint64(8 * (i & 7)))
        else:
            kept = np.int64(slots[place + 1])
            for i in range(size):
                data[filled + i] = arena[kept + i]
        prefix = _ZERO
        for i in range(8):
            byte = np.uint64(data[filled + i]) if i < size else _ZERO
            prefix = (prefix << np.uint64(8)) | byte
        prefixes[word] = prefix
        counts[word] = np.int64(slots[place + 3])
        filled += size
        word += 1
        offsets[word] = filled


@njit()
def _is_before(a: int, b: int, data: Bytes, offsets: Ints, keys: Slots) -> bool:
    """Whether word `a` comes before word `b`: by their keys, then by their bytes."""
    if keys[a] != keys[b]:
        return bool(keys[a] < keys[b])
    order = compare(data, offsets[a], offsets[a + 1], data, offsets[b], offsets[b + 1])
    return bool(order < 0)


@njit()
def _sink(
    order: Ints, low: int, root: int, size: int, data: Bytes, offsets: Ints, keys: Slots
) -> None:
    """Heap step on order[low:low + size]."""
    moved = order[low + root]
    while True:
        child = 2 * root + 1
        if child >= size:
            break
        if child + 1 < size and _is_before(
            order[low + child], order[low + child + 1], data, offsets, keys
        ):
            child += 1
        if not _is_before(moved, order[low + child], data, offsets, keys):
            break
        order[low + root] = order[low + child]
        root = child
    order[low + root] = moved


@njit()
def _sort_ties(
    order: Ints, low: int, high: int, data: Bytes, offsets: Ints, prefixes: Slots
) -> None:
    """Sort order[low:high], words of equal prefixes, by what follows; changes their prefixes.

    Their next eight bytes decide nearly always, without a look at the words again.
    """
    for i in range(low, high):
        word = order[i]
        key = _ZERO
        for at in range(offsets[word] + 8, offsets[word] + 16):
            byte = np.uint64(data[at]) if at < offsets[word + 1] else _ZERO
            key = (key << np.uint64(8)) | byte
        prefixes[word] = key
    size = high - low
    if size <= _FEW:
        for end in range(low + 1, high):
            word = order[end]
            at = end
            while at > low and _is_before(word, order[at - 1], data, offsets, prefixes):
                order[at] = order[at - 1]
                at -= 1
            order[at] = word
        return
    # Heap sort: no recursion, and never slow, however many words share a beginning.
    for root in range(size // 2 - 1, -1, -1):
        _sink(order, low, root, size, data, offsets, prefixes)
    for last in range(size - 1, 0, -1):
        order[low], order[low + last] = order[low + last], order[low]
        _sink(order, low, 0, last, data, offsets, prefixes)


@njit(types.void(_BYTES, _INTS, _INTS, _SLOTS, _INTS, _BYTES, _INTS, _INTS), cache=True, nogil=True)
def copy_in_order(
    data: Bytes,
    offsets: Ints,
    counts: Ints,
    prefixes: Slots,
    order: Ints,
    sorted_data: Bytes,
    sorted_offsets: Ints,
    sorted_counts: Ints,
) -> None:
    """Finish `order` (by prefixes) among equal prefixes, then copy the words out in it.

    `prefixes` are used up. `data` goes on for `PADDING` bytes after the last word.
    """
    words = len(order)
    low = 0
    while low < words:
        high = low + 1
        while high < words and prefixes[order[high]] == prefixes[order[low]]:
            high += 1
        if high - low > 1:
            _sort_ties(order, low, high, data, offsets, prefixes)
        low = high
    filled = 0
    sorted_offsets[0] = 0
    for i in range(words):
        if i + _AHEAD < words:
            prefetch(data, offsets[order[i + _AHEAD]])
        word = order[i]
        for at in range(offsets[word], offsets[word + 1]):
            sorted_data[filled] = data[at]
            filled += 1
        sorted_counts[i] = counts[word]
        sorted_offsets[i + 1] = filled


@njit(
    types.int64(_READ_BYTES, _READ_INTS, _READ_BYTES, _INTS),
    cache=True,
    nogil=True,
)
def split_all(data: Bytes, entry: Ints, table: Bytes, ends: Ints) -> int:
    """Ends of all words of one text; ends (≥ number of words,) int64. Gives their number.

    `data` is the text with `PADDING` more bytes.
    """
    block_ends = np.empty(MOST_WORDS, dtype=np.int32)
    total = 0
    position = 0
    stop = len(data) - PADDING
    while position < stop:
        words = next_block(data, position, stop, entry, table, block_ends)
        for word in range(words):
            ends[total] = position + block_ends[word]
            total += 1
        position = ends[total - 1]
    return total


@njit(
    types.void(_READ_BYTES, _INTS, _INTS, _SLOTS, _SLOTS),
    cache=True,
    nogil=True,
)
def hash_documents(data: Bytes, starts: Ints, stops: Ints, masks: Slots, hashes: Slots) -> None:
    """A 64-bit hash of each data[starts[d]:stops[d]] into hashes (D,) uint64."""
    for document in range(len(starts)):
        start, stop = starts[document], stops[document]
        mixed = long_hash(data, start, stop, masks)
        hashes[document] = slot_hash(mixed, _ZERO, stop - start)
