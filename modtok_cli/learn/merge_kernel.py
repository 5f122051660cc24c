"""Segment words by merges: the `tokenizers` library's BPE on flat arrays.

The rule: of all adjacent pairs that a merge joins, apply the one of lowest rank, the leftmost
first; repeat until none is left. Pairs, ranks and results are in one table, and a look-up touches
one cache line.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.learn.array_types import MERGES
from modtok_cli.learn.queue_kernel import SHORT, pop, push
from modtok_cli.text.bits import choose, highest8, leading_zeros, prefetch, trailing_zeros, value_of

Ids = npt.NDArray[np.int32]
Pairs = npt.NDArray[np.uint64]

# What no pair has: ids are below 2^30.
NONE = np.uint64(0xFFFFFFFFFFFFFFFF)
_NO_PAIR = np.uint64(0xFFFFFFFF << 32)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
# A merge is one number, 0 without a merge: LAST - rank in the highest bits, so the greatest is the
# one to apply. Below is room for 63 - position of the pair in a short word, then its result.
RANK, _POSITION = np.uint64(36), np.uint64(30)
LAST = np.uint64((1 << 27) - 1)
RESULT, _AT = np.uint64((1 << 30) - 1), np.uint64(63)
_TURNS = 6  # spans at once
_STRIDE = 72  # numbers of a span: of 64 pairs, and one that stands for no pair
_NOWHERE = np.uint64(64)
_ZERO, _ONE, _THREE, _EIGHT = (np.uint64(number) for number in (0, 1, 3, 8))
_TOP = np.uint64(1 << 63)
_WIDTH = 8  # numbers of a bucket
_LOG_WIDTH, _SLOTS = np.uint64(3), np.uint64(4)


def pair_table(merges: Ids, known: Pairs | None = None, first: int = 0) -> Pairs:
    """Table of merges (M, 3) int32: left, right, result; the row is the rank.

    Buckets of one cache line: four pairs, then for each LAST - rank << RANK | result;
    (8 * 2^n,) uint64. If a pair occurs twice, its lower rank counts. `known`: the table of
    merges[:first]; the others are added to it if it has room.
    """
    if known is not None and len(merges) <= 2 * len(known) // _WIDTH:
        _fill(merges, first, known)
        return known
    buckets = 8
    while 2 * buckets < len(merges):
        buckets *= 2
    room = np.empty(_WIDTH * (buckets + 1), dtype=np.uint64)
    begin = -room.ctypes.data % (8 * _WIDTH) // 8
    pairs = room[begin : begin + _WIDTH * buckets]
    pairs[:] = NONE
    _fill(merges, 0, pairs)
    return pairs


@njit([types.void(MERGES, types.int64, types.uint64[::1])], cache=True, nogil=True)
def _fill(merges: Ids, first: int, pairs: Pairs) -> None:
    """Write merges[first:] to a `pair_table`."""
    mask = np.uint64((len(pairs) >> 3) - 1)
    for rank in range(first, len(merges)):
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
            place = (LAST - np.uint64(rank)) << RANK
            pairs[at + slot + _SLOTS] = place | np.uint64(np.uint32(merges[rank, 2]))


@njit(inline="always")
def pair_of(left, right):  # type: ignore[no-untyped-def]
    """A pair as one number."""
    return (np.uint64(left) << _HALF) | np.uint64(right)


@njit(inline="always")
def find_merge(pairs, mask, pair):  # type: ignore[no-untyped-def]
    """The merge of a pair, 0 if there is none."""
    bucket = (pair * _MULTIPLIER) >> _HALF
    while True:
        at = (bucket & mask) << _LOG_WIDTH
        found = value_of(pairs, at, pair)
        if (pairs[at + _THREE] == NONE) | (found != _ZERO):
            break
        bucket += _ONE  # a full bucket
    return found


@njit(inline="always")
def _send_for(pairs, mask, pair):  # type: ignore[no-untyped-def]
    """Prefetch where `find_merge` looks first."""
    bucket = (pair * _MULTIPLIER) >> _HALF
    prefetch(pairs, np.int64((bucket & mask) << _LOG_WIDTH))


@njit
def _merge_long(symbols, first, size, pairs):  # type: ignore[no-untyped-def]
    """Merge a span of any length in place, by a heap of (rank, position), in n log n steps.

    Gives the number of symbols left.
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
        found = find_merge(pairs, mask, pair_of(symbols[first + i], symbols[first + i + 1]))
        if found != _ZERO:
            entries = push(heap, entries, ((LAST - (found >> RANK)) << _HALF) | np.uint64(i))
    while entries:
        entry = heap[0]
        entries = pop(heap, entries)
        at = np.int64(entry & np.uint64(0xFFFFFFFF))
        other = after[at]
        if gone[at] or other >= size:
            continue
        found = find_merge(pairs, mask, pair_of(symbols[first + at], symbols[first + other]))
        if found == _ZERO or LAST - (found >> RANK) != (entry >> _HALF):
            continue
        symbols[first + at] = np.int32(found & RESULT)
        gone[other] = 1
        beyond = after[other]
        after[at] = beyond
        if beyond < size:
            before[beyond] = at
            found = find_merge(pairs, mask, pair_of(symbols[first + at], symbols[first + beyond]))
            if found != _ZERO:
                entries = push(heap, entries, ((LAST - (found >> RANK)) << _HALF) | np.uint64(at))
        if before[at] >= 0:
            ahead = before[at]
            found = find_merge(pairs, mask, pair_of(symbols[first + ahead], symbols[first + at]))
            if found != _ZERO:
                rank = LAST - (found >> RANK)
                entries = push(heap, entries, (rank << _HALF) | np.uint64(ahead))
    kept = 0
    for i in range(size):
        if not gone[i]:
            symbols[first + kept] = symbols[first + i]
            kept += 1
    return kept


@njit
def merge_spans(symbols, offsets, pairs, sizes):  # type: ignore[no-untyped-def]
    """Apply all merges to each span symbols[offsets[i]:offsets[i + 1]] in place.

    Shapes: symbols (N,) int32; offsets (S + 1,) int64; pairs a `pair_table`; sizes (S,) int64
    receives how many symbols are left; they are the first of the span.

    Several spans take turns, one merge at a time: what a turn looks up was prefetched in the one
    before. Symbols stay where they are until all of a span is merged; bits of `left` tell which
    are still there. A pair is where its first symbol is.
    """
    mask = np.uint64((len(pairs) >> 3) - 1)
    merges = np.empty(_TURNS * _STRIDE, dtype=np.uint64)
    lefts = np.zeros(_TURNS, dtype=np.uint64)
    stops = np.empty(_TURNS, dtype=np.uint64)
    spans = np.empty(_TURNS, dtype=np.uint64)
    # Where the last merge and the symbol before it are, and the pairs that are new by it.
    heres = np.empty(_TURNS, dtype=np.uint64)
    befores = np.empty(_TURNS, dtype=np.uint64)
    pairs_before = np.empty(_TURNS, dtype=np.uint64)
    pairs_after = np.empty(_TURNS, dtype=np.uint64)
    following = _ZERO
    active = True
    while active:
        active = False
        for number in range(_TURNS):
            turn = np.uint64(number)
            own = turn * np.uint64(_STRIDE)
            left, stop, span = lefts[turn], stops[turn], spans[turn]
            if left:
                active = True
                first = np.uint64(offsets[span])
                here, before = heres[turn], befores[turn]
                # The new merges are compared from registers: they are 0 in memory until then.
                best = highest8(merges, own)
                for i in range(_EIGHT, stop, _EIGHT):
                    best = max(best, highest8(merges, own + np.uint64(i)))
                found = find_merge(pairs, mask, pairs_after[turn])
                found |= (_AT - here) << _POSITION
                merges[own + here] = found
                best = max(best, found)
                found = find_merge(pairs, mask, pairs_before[turn])
                found |= (_AT - (before & _AT)) << _POSITION
                merges[own + before] = found
                best = max(best, found)
                if best >> RANK:
                    here = _AT - ((best >> _POSITION) & _AT)
                    result = best & RESULT
                    symbols[first + here] = np.int32(result)
                    behind = left >> (here + _ONE)
                    gone = here + _ONE + np.uint64(trailing_zeros(behind))
                    left &= ~(_ONE << gone)
                    behind &= behind - _ONE
                    at = here + _ONE + np.uint64(trailing_zeros(behind | _TOP))
                    at = choose(behind != _ZERO, at, here)
                    after = pair_of(result, symbols[first + at])
                    after = choose(behind != _ZERO, after, _NO_PAIR)
                    ahead = left & ((_ONE << here) - _ONE)
                    at = _AT - leading_zeros(ahead | _ONE)
                    pair = pair_of(symbols[first + at], result)
                    pair = choose(ahead != _ZERO, pair, _NO_PAIR)
                    before = choose(ahead != _ZERO, at, _NOWHERE)
                    _send_for(pairs, mask, after)
                    _send_for(pairs, mask, pair)
                    merges[own + gone] = _ZERO
                    merges[own + here] = _ZERO
                    merges[own + before] = _ZERO
                    lefts[turn], heres[turn], befores[turn] = left, here, before
                    pairs_after[turn], pairs_before[turn] = after, pair
                    continue
                kept = first
                while left:
                    symbols[kept] = symbols[first + np.uint64(trailing_zeros(left))]
                    kept += _ONE
                    left &= left - _ONE
                sizes[span] = np.int64(kept - first)
                lefts[turn] = _ZERO
            while following < np.uint64(len(sizes)):
                span = following
                following += _ONE
                first = np.uint64(offsets[span])
                size = np.uint64(offsets[span + _ONE]) - first
                if size > np.uint64(SHORT):
                    sizes[span] = _merge_long(symbols, np.int64(first), np.int64(size), pairs)
                elif size < np.uint64(2):
                    sizes[span] = np.int64(size)
                else:
                    # The first pairs are of bytes: they are few, and in the nearest caches.
                    for i in range(size - _ONE):
                        at = np.uint64(i)
                        pair = pair_of(symbols[first + at], symbols[first + at + _ONE])
                        found = find_merge(pairs, mask, pair)
                        merges[own + at] = found | ((_AT - at) << _POSITION)
                    stop = (size + np.uint64(6)) & ~np.uint64(7)
                    for i in range(size - _ONE, stop):
                        merges[own + np.uint64(i)] = _ZERO
                    lefts[turn] = (_ONE << size) - _ONE
                    stops[turn] = stop
                    spans[turn] = span
                    heres[turn], befores[turn] = _ZERO, _NOWHERE
                    pairs_before[turn] = _NO_PAIR
                    pairs_after[turn] = pair_of(symbols[first], symbols[first + _ONE])
                    active = True
                    break
