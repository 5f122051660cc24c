"""Text to token ids block by block: split into words, look each up, encode only what is new.

The kernels do not know how a word is segmented. `advance` goes on until enough words have come up
that are not in the cache, and leaves gaps for their ids; the caller encodes these words and calls
`close_gaps`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.learn.array_types import I32, I64, U8
from modtok_cli.modular.word_cache import (
    HALF,
    INLINE,
    LONGEST_CACHED,
    LOW,
    META,
    PAIR,
    SIZE,
    TABLE,
    TOKENS,
    WIDTH,
    Table,
    find_word,
    slot_bits,
)
from modtok_cli.text.bits import load64, load_acquire, prefetch
from modtok_cli.text.split_kernel import BLOCK, next_block
from modtok_cli.text.word_key_kernel import SHORT, long_hash, same_bytes, slot_hash

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]

BATCH = 64
"""Words whose places in the cache are known, and on their way, before the first is looked up."""
ENOUGH = 2048
"""New words for which `advance` returns, at the end of a block."""
# Or gaps: a new word may come many times before it is in the cache.
_FULL = 4 * ENOUGH
_PENDING = 1 << 14

_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_THREE, _FOUR = np.uint64(3), np.uint64(4)
_NEAR = np.uint64(_PENDING - 1)
_META, _PAIR, _INLINE, _WIDTH = (np.uint64(number) for number in (META, PAIR, INLINE, WIDTH))

# Indices of the numbers in `Work.state`.
_SPLIT_DOCUMENT, _POSITION, _BEGIN, _WORDS, _CUTS, _DOCUMENT, _END, _GAPS, _CLOSED = range(9)


class Work(NamedTuple):
    """State and scratch of one pass over a text: a block of words, which may span documents.

    ends: ends of the words, relative to the block. cuts:
    numbers of words at which documents end. keys: of the words of a batch, four numbers for each,
    the two of its key, the first slot in which it may be, and its size. starts, stops, hashes: of
    new words; pending: their numbers, by the slots in which they will be. gaps: where ids of new
    words belong, and gap_words: of which. state: where the pass is.
    """

    ends: Ids
    cuts: Ids
    keys: npt.NDArray[np.uint64]
    starts: Ints
    stops: Ints
    hashes: npt.NDArray[np.uint64]
    pending: Ids
    gaps: Ints
    gap_words: Ids
    state: Ints


WORK = types.NamedTuple(
    (
        types.int32[::1], types.int32[::1],
        types.uint64[::1],
        types.int64[::1], types.int64[::1], types.uint64[::1], types.int32[::1],
        types.int64[::1], types.int32[::1], types.int64[::1],
    ),
    Work,
)  # type: ignore[no-untyped-call]  # fmt: skip


def new_work() -> Work:
    """Scratch for any text; a pass begins with `state` all zeros."""
    room = 2 * BLOCK + 4
    return Work(
        np.empty(room, dtype=np.int32),
        np.empty(BLOCK, dtype=np.int32),
        np.empty(4 * BATCH, dtype=np.uint64),
        np.empty(room + ENOUGH, dtype=np.int64),
        np.empty(room + ENOUGH, dtype=np.int64),
        np.empty(room + ENOUGH, dtype=np.uint64),
        np.zeros(_PENDING, dtype=np.int32),
        np.empty(room + _FULL, dtype=np.int64),
        np.empty(room + _FULL, dtype=np.int32),
        np.zeros(9, dtype=np.int64),
    )


@njit()
def _split(data, offsets, entry, table, work):  # type: ignore[no-untyped-def]
    """Split the next block into words; gives their number."""
    state = work.state
    documents = len(offsets) - 1
    document = state[_SPLIT_DOCUMENT]
    position = max(state[_POSITION], offsets[0])
    begin = position
    words = 0
    cuts = 0
    while document < documents and position - begin < BLOCK and cuts < BLOCK:
        stop = offsets[document + 1]
        if position < stop:
            ends = work.ends[words:]
            found = next_block(data, position, stop, entry, table, ends)
            size = ends[found - 1]
            if position > begin:
                for word in range(found):
                    ends[word] += np.int32(position - begin)
            words += found
            position += size
        if position == stop:
            work.cuts[cuts] = words
            cuts += 1
            document += 1
    state[_SPLIT_DOCUMENT] = document
    state[_POSITION] = position
    state[_BEGIN] = begin
    state[_WORDS] = words
    state[_CUTS] = cuts
    return words


@njit(
    types.int64(U8, I64, I64, U8, TABLE, WORK, types.int32[::1], types.int64[::1]),
    cache=True,
    nogil=True,
)
def advance(
    data: Bytes,
    offsets: Ints,
    entry: Ints,
    table: Bytes,
    cache: Table,
    work: Work,
    ids: Ids,
    id_offsets: Ints,
) -> int:
    """Write the ids of texts until enough new words came up; gives their number, 0 at the end.

    They are data[work.starts[i]:work.stops[i]]. Wherever one belongs, there is a gap of its size in
    bytes in `ids`, which `close_gaps` fills and closes.

    Shapes: data (B,) uint8, UTF-8, with `PADDING` more bytes; offsets (D + 1,) int64, text i is
    data[offsets[i]:offsets[i + 1]]; entry and table a `pretokenizer.Splitter`; ids (B + 2,) int32;
    id_offsets (D + 1,) int64, as `offsets` for the ids.
    """
    # Fields are read once: each access counts references.
    state, ends, cuts, keys = work.state, work.ends, work.cuts, work.keys
    starts, stops, hashes, pending = work.starts, work.stops, work.hashes, work.pending
    gaps, gap_words = work.gaps, work.gap_words
    slots, cached_words, cached_ids, masks = cache.slots, cache.words, cache.ids, cache.masks
    # Indices are unsigned: numba would look at every other one for a negative number.
    wrap = np.uint64(len(slots) - 1)
    shift = np.uint64(64 - slot_bits(slots))
    id_offsets[0] = 0
    end = np.uint64(state[_END])
    document = state[_DOCUMENT]
    missing = gap = _ZERO
    while (
        state[_SPLIT_DOCUMENT] < len(offsets) - 1
        and missing < np.uint64(ENOUGH)
        and gap < np.uint64(_FULL)
    ):
        words = _split(data, offsets, entry, table, work)
        begin = state[_BEGIN]
        cut = 0
        next_cut = cuts[0] if state[_CUTS] > 0 else words + 1
        start = begin
        for low in range(0, words, BATCH):
            high = min(low + BATCH, words)
            # Keys and places of some words, so that their cache lines are on the way.
            key = _ZERO
            ahead = start
            for word in range(low, high):
                stop = begin + ends[np.uint64(word)]
                size = stop - ahead
                if size <= SHORT:
                    first = load64(data, ahead) & masks[np.uint64(min(size, 8))]
                    second = load64(data, ahead + 8) & masks[np.uint64(max(size - 8, 0))]
                else:
                    first = long_hash(data, ahead, stop, masks)
                    second = _ZERO
                at = (slot_hash(first, second, size) >> shift) * _WIDTH
                prefetch(slots, at)
                keys[key], keys[key + _ONE] = first, second
                keys[key + _TWO], keys[key + _THREE] = at, np.uint64(size)
                key += _FOUR
                ahead = stop
            key = _ZERO
            for word in range(low, high):
                while word == next_cut:  # documents end before this word
                    document += 1
                    id_offsets[document] = np.int64(end)
                    cut += 1
                    next_cut = cuts[cut] if cut < state[_CUTS] else words + 1
                first, second = keys[key], keys[key + _ONE]
                at, size = keys[key + _TWO], np.int64(keys[key + _THREE])
                key += _FOUR
                if size <= SHORT:
                    while True:
                        # Other threads add words: what a slot holds is there if its `META` is.
                        meta = load_acquire(slots, at + _META)
                        # One test, nearly always true, in place of three.
                        unlike = (slots[at] ^ first) | (slots[at + _ONE] ^ second)
                        if (unlike | ((meta & SIZE) ^ np.uint64(size))) == _ZERO:
                            break
                        if meta == _ZERO:
                            break
                        at = (at + _WIDTH) & wrap
                elif size <= LONGEST_CACHED:
                    at, meta = find_word(
                        data, start, size, first, second, at, slots, cached_words, masks
                    )
                else:
                    meta = _ZERO
                if meta != _ZERO:
                    tokens = (meta >> TOKENS) & SIZE
                    pair = slots[at + _PAIR]
                    if tokens <= _INLINE:
                        ids[end] = np.int32(meta >> HALF)
                        ids[end + _ONE] = np.int32(pair & LOW)
                        ids[end + _TWO] = np.int32(pair >> HALF)
                    else:
                        for i in range(np.int64(tokens)):
                            ids[end + np.uint64(i)] = cached_ids[np.uint64(pair) + np.uint64(i)]
                    end += tokens
                else:
                    near = (at >> _TWO) & _NEAR
                    new = np.uint64(pending[near])
                    if (
                        new >= missing
                        or stops[new] - starts[new] != size
                        or not same_bytes(data, starts[new], data, start, int(size), masks)
                    ):
                        new = missing
                        pending[near] = np.int32(new)
                        starts[new], stops[new] = start, start + size
                        hashes[new] = slot_hash(first, second, size)
                        missing += _ONE
                    gaps[gap], gap_words[gap] = np.int64(end), np.int32(new)
                    gap += _ONE
                    end += np.uint64(size)
                start += size
        while cut < state[_CUTS]:
            document += 1
            id_offsets[document] = np.int64(end)
            cut += 1
    state[_END] = np.int64(end)
    state[_DOCUMENT] = document
    state[_GAPS] = np.int64(gap)
    return int(missing)


@njit(types.void(WORK, I32, I64, types.int32[::1], types.int64[::1]), cache=True, nogil=True)
def close_gaps(work: Work, new: Ids, new_offsets: Ints, ids: Ids, id_offsets: Ints) -> None:
    """Write the ids of the new words of `advance` into their gaps, and the others behind them.

    Shapes: new (N,) int32, those of word i are new[new_offsets[i]:new_offsets[i + 1]], not more
    than it has bytes; the others as in `advance`.
    """
    state, starts, stops = work.state, work.starts, work.stops
    gaps, gap_words = work.gaps, work.gap_words
    document = state[_CLOSED]
    to = np.uint64(gaps[0])
    for number in range(state[_GAPS]):
        gap, word = gaps[number], gap_words[number]
        while document < state[_DOCUMENT] and id_offsets[document + 1] <= gap:
            document += 1
            id_offsets[document] -= gap - np.int64(to)
        for at in range(new_offsets[word], new_offsets[word + 1]):
            ids[to] = new[at]
            to += _ONE
        end = gaps[number + 1] if number + 1 < state[_GAPS] else state[_END]
        for at in range(gap + stops[word] - starts[word], end):
            ids[to] = ids[np.uint64(at)]
            to += _ONE
    while document < state[_DOCUMENT]:
        document += 1
        id_offsets[document] -= state[_END] - np.int64(to)
    state[_END] = np.int64(to)
    state[_CLOSED] = document
