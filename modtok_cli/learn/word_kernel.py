"""Segment words by a merge table: the `tokenizers` library's BPE on flat arrays.

The rule: of all adjacent pairs that a merge joins, apply the one of lowest rank, the
leftmost first; repeat until none is left. Short words take a plain scan for the lowest
rank (everything stays in the first-level cache); long ones a heap, so that a word of
100,000 equal characters takes n log n steps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.learn.array_types import I32, I64, MERGES, U8, U64
from modtok_cli.learn.hugepages import advise_huge_pages
from modtok_cli.learn.queue_kernel import SHORT, pop, push

Ids = npt.NDArray[np.int32]

_EMPTY = np.uint64(0xFFFFFFFFFFFFFFFF)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)

_TABLE = types.Tuple((types.uint64[::1], types.int32[::1]))  # type: ignore[no-untyped-call]
_RAGGED = types.Tuple((types.int32[::1], types.int64[::1]))  # type: ignore[no-untyped-call]


@njit(inline="always")
def pair_key(left, right):  # type: ignore[no-untyped-def]
    """One 64-bit number for a pair of ids."""
    return (np.uint64(left) << _HALF) | np.uint64(right)


@njit(inline="always")
def find_rank(keys, ranks, active, left, right):  # type: ignore[no-untyped-def]
    """Rank of the active merge that joins `left` and `right`, -1 if there is none."""
    mask = np.uint64(len(keys) - 1)
    key = pair_key(left, right)
    slot = ((key * _MULTIPLIER) >> _HALF) & mask
    while keys[slot] != _EMPTY:
        if keys[slot] == key:
            rank = ranks[slot]
            return np.int64(rank) if active[rank] else np.int64(-1)
        slot = (slot + np.uint64(1)) & mask
    return np.int64(-1)


@njit([_TABLE(MERGES)], cache=True, nogil=True)
def build_pair_table(merges: Ids) -> tuple[npt.NDArray[np.uint64], Ids]:
    """Open-addressing table from a pair of ids to the rank of its merge.

    Shapes: merges (M, 3) int32 (left, right, result); returns keys (C,) uint64 and ranks
    (C,) int32, C a power of two of at least 2 M. If a pair occurs twice, its lower rank counts.
    """
    capacity = 16
    while capacity < 2 * len(merges):
        capacity *= 2
    keys = np.empty(capacity, dtype=np.uint64)
    ranks = np.empty(capacity, dtype=np.int32)
    advise_huge_pages(keys)
    advise_huge_pages(ranks)
    keys[:] = _EMPTY
    ranks[:] = -1
    mask = np.uint64(capacity - 1)
    for rank in range(len(merges)):
        key = pair_key(merges[rank, 0], merges[rank, 1])
        slot = ((key * _MULTIPLIER) >> _HALF) & mask
        while keys[slot] != _EMPTY and keys[slot] != key:
            slot = (slot + np.uint64(1)) & mask
        if keys[slot] == _EMPTY:
            keys[slot] = key
            ranks[slot] = rank
    return keys, ranks


@njit
def _merge_short(symbols, size, merges, keys, ranks, active, pair_ranks):  # type: ignore[no-untyped-def]
    """Merge `symbols[:size]` in place by scanning for the lowest rank; return the new size."""
    none = np.int64(1) << np.int64(40)
    for i in range(size - 1):
        rank = find_rank(keys, ranks, active, symbols[i], symbols[i + 1])
        pair_ranks[i] = rank if rank >= 0 else none
    while size > 1:
        best = none
        at = 0
        for i in range(size - 1):
            if pair_ranks[i] < best:
                best = pair_ranks[i]
                at = i
        if best == none:
            break
        symbols[at] = merges[best, 2]
        size -= 1
        for i in range(at + 1, size):
            symbols[i] = symbols[i + 1]
            pair_ranks[i - 1] = pair_ranks[i]
        if at > 0:
            rank = find_rank(keys, ranks, active, symbols[at - 1], symbols[at])
            pair_ranks[at - 1] = rank if rank >= 0 else none
        if at < size - 1:
            rank = find_rank(keys, ranks, active, symbols[at], symbols[at + 1])
            pair_ranks[at] = rank if rank >= 0 else none
    return size


@njit
def _merge_long(symbols, size, merges, keys, ranks, active):  # type: ignore[no-untyped-def]
    """Merge `symbols[:size]` in place by a heap of (rank, position); return the new size.

    An entry whose position no longer starts a pair of that rank is stale and skipped. A
    merged-away position has symbol -1.
    """
    after = np.empty(size, dtype=np.int64)
    before = np.empty(size, dtype=np.int64)
    # Each merge adds at most two entries to the first size - 1, and there are fewer than size.
    heap = np.empty(3 * size, dtype=np.int64)
    entries = 0
    for i in range(size):
        after[i] = i + 1
        before[i] = i - 1
    for i in range(size - 1):
        rank = find_rank(keys, ranks, active, symbols[i], symbols[i + 1])
        if rank >= 0:
            entries = push(heap, entries, (rank << 32) | i)
    while entries:
        entry = heap[0]
        entries = pop(heap, entries)
        at = entry & 0xFFFFFFFF
        best = entry >> 32
        if symbols[at] < 0 or after[at] >= size:
            continue
        other = after[at]
        if symbols[at] != merges[best, 0] or symbols[other] != merges[best, 1]:
            continue
        symbols[at] = merges[best, 2]
        symbols[other] = -1
        beyond = after[other]
        after[at] = beyond
        if beyond < size:
            before[beyond] = at
            rank = find_rank(keys, ranks, active, symbols[at], symbols[beyond])
            if rank >= 0:
                entries = push(heap, entries, (rank << 32) | at)
        if before[at] >= 0:
            rank = find_rank(keys, ranks, active, symbols[before[at]], symbols[at])
            if rank >= 0:
                entries = push(heap, entries, (rank << 32) | before[at])
    kept = 0
    for i in range(size):
        if symbols[i] >= 0:
            symbols[kept] = symbols[i]
            kept += 1
    return kept


@njit
def merge_symbols(symbols, size, merges, keys, ranks, active, scratch):  # type: ignore[no-untyped-def]
    """Apply the active merges to `symbols[:size]` in place; return the number left.

    Shapes: symbols int32, scratch (SHORT,) int64; the others as in `encode_words`.
    """
    if size <= SHORT:
        return _merge_short(symbols, size, merges, keys, ranks, active, scratch)
    return _merge_long(symbols, size, merges, keys, ranks, active)


@njit([_RAGGED(U8, I64, I32, MERGES, U64, I32, U8)], cache=True, nogil=True)
def encode_words(
    data: npt.NDArray[np.uint8],
    offsets: npt.NDArray[np.int64],
    byte_ids: Ids,
    merges: Ids,
    keys: npt.NDArray[np.uint64],
    ranks: Ids,
    active: npt.NDArray[np.uint8],
) -> tuple[Ids, npt.NDArray[np.int64]]:
    """Token ids of each word `data[offsets[i]:offsets[i + 1]]` by the active merges.

    Shapes: data (B,) uint8; offsets (W + 1,) int64; byte_ids (256,) int32, id of each byte;
    merges (M, 3) int32; keys, ranks from `build_pair_table(merges)`; active (M,) uint8,
    0 where a merge is not to be used. Returns ids (N,) int32 and id_offsets (W + 1,) int64.

    With merges h+e → he and he+y → hey, "heyhe" gives [hey, he].
    """
    words = len(offsets) - 1
    ids = np.empty(offsets[words] - offsets[0], dtype=np.int32)
    id_offsets = np.empty(words + 1, dtype=np.int64)
    id_offsets[0] = 0
    scratch = np.empty(SHORT, dtype=np.int64)
    end = 0
    for word in range(words):
        size = offsets[word + 1] - offsets[word]
        for i in range(size):
            ids[end + i] = byte_ids[data[offsets[word] + i]]
        symbols = ids[end : end + size]
        end += merge_symbols(symbols, size, merges, keys, ranks, active, scratch)
        id_offsets[word + 1] = end
    return ids[:end].copy(), id_offsets
