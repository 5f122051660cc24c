"""Segment words by merges, for encoding: pairs, ranks and results in one table.

The rule is that of `learn.word_kernel`: of all adjacent pairs that a merge joins, apply the one of
lowest rank, the leftmost first. A look-up touches one cache line, where the learner's tables, of
which single merges can be switched off, take four.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.learn.array_types import MERGES
from modtok_cli.learn.hugepages import advise_huge_pages
from modtok_cli.learn.queue_kernel import SHORT, pop, push

Ids = npt.NDArray[np.int32]
Pairs = npt.NDArray[np.uint64]

# What no pair has: ids are below 2^31, so neither a key nor a rank with a result is all ones.
NONE = np.uint64(0xFFFFFFFFFFFFFFFF)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_ZERO, _ONE, _TWO, _THREE = (np.uint64(number) for number in range(4))
_WIDTH = 8  # numbers of a bucket
_LOG_WIDTH, _SLOTS = np.uint64(3), np.uint64(4)


def pair_table(merges: Ids) -> Pairs:
    """Table of merges (M, 3) int32: left, right, result; the row is the rank.

    Buckets of one cache line: four pairs, then for each the inverse of rank and result, 32 bits
    each; (8 * 2^n,) uint64. If a pair occurs twice, its lower rank counts.
    """
    buckets = 8
    while 2 * buckets < len(merges):
        buckets *= 2
    room = np.empty(_WIDTH * (buckets + 1), dtype=np.uint64)
    begin = -room.ctypes.data % (8 * _WIDTH) // 8
    pairs = room[begin : begin + _WIDTH * buckets]
    _fill(merges, pairs)
    return pairs


@njit([types.void(MERGES, types.uint64[::1])], cache=True, nogil=True)
def _fill(merges: Ids, pairs: Pairs) -> None:
    """Write a `pair_table`."""
    advise_huge_pages(pairs)
    for i in range(len(pairs)):
        pairs[i] = NONE
    mask = np.uint64((len(pairs) >> 3) - 1)
    for rank in range(len(merges)):
        key = (np.uint64(merges[rank, 0]) << _HALF) | np.uint64(merges[rank, 1])
        bucket = (key * _MULTIPLIER) >> _HALF
        slot = np.uint64(0)
        at = (bucket & mask) << _LOG_WIDTH
        while pairs[at + slot] != NONE and pairs[at + slot] != key:
            slot += _ONE
            if slot == _SLOTS:
                slot = np.uint64(0)
                bucket += _ONE
                at = (bucket & mask) << _LOG_WIDTH
        if pairs[at + slot] == NONE:
            pairs[at + slot] = key
            found = (np.uint64(rank) << _HALF) | np.uint64(np.uint32(merges[rank, 2]))
            pairs[at + slot + _SLOTS] = ~found


@njit(inline="always")
def _find(pairs, mask, left, right):  # type: ignore[no-untyped-def]
    """Rank and result of the merge of a pair, `NONE` if there is none.

    Without a branch on whether it is there, which nothing could predict: two look-ups then wait
    for memory at the same time.
    """
    key = (np.uint64(left) << _HALF) | np.uint64(right)
    bucket = (key * _MULTIPLIER) >> _HALF
    found = _ZERO
    while True:
        at = (bucket & mask) << _LOG_WIDTH
        found |= pairs[at + _SLOTS] & (_ZERO - np.uint64(pairs[at] == key))
        found |= pairs[at + _SLOTS + _ONE] & (_ZERO - np.uint64(pairs[at + _ONE] == key))
        found |= pairs[at + _SLOTS + _TWO] & (_ZERO - np.uint64(pairs[at + _TWO] == key))
        found |= pairs[at + _SLOTS + _THREE] & (_ZERO - np.uint64(pairs[at + _THREE] == key))
        if pairs[at + _THREE] == NONE or found != _ZERO:
            break
        bucket += _ONE  # a full bucket, which is rare
    return ~found


@njit
def _merge_short(symbols, first, size, pairs, scratch):  # type: ignore[no-untyped-def]
    """As `merge_symbols`, by scanning for the lowest rank."""
    mask = np.uint64((len(pairs) >> 3) - 1)
    for i in range(size - 1):
        scratch[i] = _find(pairs, mask, symbols[first + i], symbols[first + i + 1])
    while size > 1:
        best = NONE
        at = 0
        for i in range(size - 1):
            if scratch[i] < best:
                best = scratch[i]
                at = i
        if best == NONE:
            break
        size -= 1
        here = first + at
        symbols[here] = np.int32(best & _LOW)
        for i in range(at + 1, size):
            symbols[first + i] = symbols[first + i + 1]
            scratch[i - 1] = scratch[i]
        if at > 0:
            scratch[at - 1] = _find(pairs, mask, symbols[here - 1], symbols[here])
        if at < size - 1:
            scratch[at] = _find(pairs, mask, symbols[here], symbols[here + 1])
    return size


@njit
def _merge_long(symbols, first, size, pairs):  # type: ignore[no-untyped-def]
    """As `merge_symbols`, by a heap of (rank, position), so that long words take n log n steps.

    An entry whose position no longer begins a pair of that rank is stale and skipped.
    """
    mask = np.uint64((len(pairs) >> 3) - 1)
    after = np.empty(size, dtype=np.int64)
    before = np.empty(size, dtype=np.int64)
    gone = np.zeros(size, dtype=np.uint8)
    # Each merge adds at most two entries to the first size - 1, and there are fewer than size.
    heap = np.empty(3 * size, dtype=np.uint64)
    entries = 0
    for i in range(size):
        after[i] = i + 1
        before[i] = i - 1
    for i in range(size - 1):
        found = _find(pairs, mask, symbols[first + i], symbols[first + i + 1])
        if found != NONE:
            entries = push(heap, entries, (found & ~_LOW) | np.uint64(i))
    while entries:
        entry = heap[0]
        entries = pop(heap, entries)
        at = np.int64(entry & _LOW)
        other = after[at]
        if gone[at] or other >= size:
            continue
        found = _find(pairs, mask, symbols[first + at], symbols[first + other])
        if found == NONE or (found >> _HALF) != (entry >> _HALF):
            continue
        symbols[first + at] = np.int32(found & _LOW)
        gone[other] = 1
        beyond = after[other]
        after[at] = beyond
        if beyond < size:
            before[beyond] = at
            found = _find(pairs, mask, symbols[first + at], symbols[first + beyond])
            if found != NONE:
                entries = push(heap, entries, (found & ~_LOW) | np.uint64(at))
        if before[at] >= 0:
            found = _find(pairs, mask, symbols[first + before[at]], symbols[first + at])
            if found != NONE:
                entries = push(heap, entries, (found & ~_LOW) | np.uint64(before[at]))
    kept = 0
    for i in range(size):
        if not gone[i]:
            symbols[first + kept] = symbols[first + i]
            kept += 1
    return kept


@njit
def merge_symbols(symbols, first, size, pairs, scratch):  # type: ignore[no-untyped-def]
    """Apply all merges to symbols[first:first + size] in place; return the number left.

    Shapes: symbols int32; pairs a `pair_table`; scratch (SHORT,) uint64.
    """
    if size <= SHORT:
        return _merge_short(symbols, first, size, pairs, scratch)
    return _merge_long(symbols, first, size, pairs)
