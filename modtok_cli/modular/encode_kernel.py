"""Text to token ids block by block: split into words, look each up, encode only what is new.

The kernels do not know how a word is segmented. `advance` goes on until a block has words that
are not in the cache; the caller encodes these (`new_words`) and calls `finish_block`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
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
    copy_ids,
    find_word,
    slot_bits,
)
from modtok_cli.text.bits import load64, prefetch
from modtok_cli.text.split_kernel import BLOCK, SCRATCH, next_block
from modtok_cli.text.word_key_kernel import PADDING, SHORT, long_hash, slot_hash

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]

BATCH = 64
"""Words whose places in the cache are known, and on their way, before the first is looked up."""

_ZERO, _ONE, _TWO = np.uint64(0), np.uint64(1), np.uint64(2)
_META, _PAIR, _INLINE, _WIDTH = (np.uint64(number) for number in (META, PAIR, INLINE, WIDTH))

# Indices of the numbers in `Work.state`.
_SPLIT_DOCUMENT, _POSITION, _BEGIN, _WORDS, _MISSES, _DOCUMENT, _END, _WRITTEN, _CUTS, _CUT = range(
    10
)


class Work(NamedTuple):
    """State and scratch of one pass over a text: a block of words, which may span documents.

    classes: of `split_kernel.next_block`. ends: ends of the words, relative to the block. cuts:
    numbers of words at which documents end. places: the word's slot in the cache, or -1 - m for
    the m-th of the words that are new; misses: their numbers. firsts, seconds: keys of a batch of
    words. state: where the pass is.
    """

    classes: Bytes
    ends: Ids
    cuts: Ids
    places: Ints
    misses: Ids
    firsts: npt.NDArray[np.uint64]
    seconds: npt.NDArray[np.uint64]
    state: Ints


WORK = types.NamedTuple(
    (
        types.uint8[::1], types.int32[::1], types.int32[::1],
        types.int64[::1], types.int32[::1], types.uint64[::1], types.uint64[::1],
        types.int64[::1],
    ),
    Work,
)  # type: ignore[no-untyped-call]  # fmt: skip
_FLAT_WORDS = types.Tuple((types.uint8[::1], types.int64[::1]))  # type: ignore[no-untyped-call]
READ_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_READ_IDS = types.Array(types.int32, 1, "C", readonly=True)
READ_INTS = types.Array(types.int64, 1, "C", readonly=True)


def new_work() -> Work:
    """Scratch for any text; a pass begins with `state` all zeros."""
    room = 2 * BLOCK + 4
    return Work(
        np.empty(SCRATCH, dtype=np.uint8),
        np.empty(room, dtype=np.int32),
        np.empty(BLOCK, dtype=np.int32),
        np.empty(room, dtype=np.int64),
        np.empty(room, dtype=np.int32),
        np.empty(BATCH, dtype=np.uint64),
        np.empty(BATCH, dtype=np.uint64),
        np.zeros(10, dtype=np.int64),
    )


@njit(cache=True, nogil=True)
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
            found = next_block(data, position, stop, entry, table, work.classes, ends)
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
    types.int64(
        READ_BYTES, READ_INTS, READ_INTS, READ_BYTES, TABLE, WORK,
        types.int32[::1], types.int64[::1],
    ),
    cache=True,
    nogil=True,
)  # fmt: skip
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
    """Write the ids of texts until new words come up; gives their number, 0 at the end.

    Shapes: data (B,) uint8, UTF-8, with `PADDING` more bytes; offsets (D + 1,) int64, text i is
    data[offsets[i]:offsets[i + 1]]; entry and table a `pretokenizer.Splitter`; ids (B + 2,) int32;
    id_offsets (D + 1,) int64, as `offsets` for the ids.
    """
    # Fields are read once: each access counts references.
    state, ends, cuts, places, misses = work.state, work.ends, work.cuts, work.places, work.misses
    firsts, seconds = work.firsts, work.seconds
    slots, cached_words, cached_ids, masks = cache.slots, cache.words, cache.ids, cache.masks
    # Indices are unsigned: numba would look at every other one for a negative number.
    wrap = np.uint64(len(slots) - 1)
    shift = np.uint64(64 - slot_bits(slots))
    id_offsets[0] = 0
    while state[_SPLIT_DOCUMENT] < len(offsets) - 1:
        words = _split(data, offsets, entry, table, work)
        begin = state[_BEGIN]
        missing = 0
        end = np.uint64(state[_END])
        document = state[_DOCUMENT]
        cut = 0
        next_cut = cuts[0] if state[_CUTS] > 0 else words + 1
        stop = begin
        for low in range(0, words, BATCH):
            high = min(low + BATCH, words)
            # Keys and places of some words, so that their cache lines are on the way.
            start = stop
            for word in range(low, high):
                stop = begin + ends[word]
                size = stop - start
                if size <= SHORT:
                    first = load64(data, start) & masks[np.uint64(min(size, 8))]
                    second = load64(data, start + 8) & masks[np.uint64(max(size - 8, 0))]
                else:
                    first = long_hash(data, start, stop, masks)
                    second = _ZERO
                at = (slot_hash(first, second, size) >> shift) * _WIDTH
                prefetch(slots, at)
                firsts[np.uint64(word - low)] = first
                seconds[np.uint64(word - low)] = second
                places[np.uint64(word)] = np.int64(at)
                start = stop
            stop = begin if low == 0 else begin + ends[low - 1]
            for word in range(low, high):
                while word == next_cut:  # documents end before this word
                    if missing == 0:
                        document += 1
                        id_offsets[document] = np.int64(end)
                    cut += 1
                    next_cut = cuts[cut] if cut < state[_CUTS] else words + 1
                start = stop
                stop = begin + ends[word]
                size = stop - start
                at = np.uint64(places[np.uint64(word)])
                if size <= SHORT:
                    first = firsts[np.uint64(word - low)]
                    second = seconds[np.uint64(word - low)]
                    while True:
                        meta = slots[at + _META]
                        # One test, nearly always true, in place of three.
                        unlike = (slots[at] ^ first) | (slots[at + _ONE] ^ second)
                        if (unlike | ((meta & SIZE) ^ np.uint64(size))) == _ZERO:
                            break
                        if meta == _ZERO:
                            break
                        at = (at + _WIDTH) & wrap
                elif size <= LONGEST_CACHED:
                    at = np.uint64(
                        find_word(data, start, stop, np.int64(at), slots, cached_words, masks)
                    )
                    meta = slots[at + _META]
                else:
                    meta = _ZERO
                if missing == 0 and meta != _ZERO:
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
                    if missing == 0:  # what follows is written when this word is known
                        state[_WRITTEN] = word
                        state[_CUT] = cut
                        state[_END] = np.int64(end)
                        state[_DOCUMENT] = document
                    place = np.int64(at)
                    if meta == _ZERO:
                        misses[missing] = word
                        missing += 1
                        place = np.int64(-missing)
                    places[np.uint64(word)] = place
        if missing:
            state[_MISSES] = missing
            return missing
        while cut < state[_CUTS]:
            document += 1
            id_offsets[document] = np.int64(end)
            cut += 1
        state[_END] = np.int64(end)
        state[_DOCUMENT] = document
    return 0


@njit(
    _FLAT_WORDS(READ_BYTES, WORK),
    cache=True,
    nogil=True,
)
def new_words(data: Bytes, work: Work) -> tuple[Bytes, Ints]:
    """The words that `advance` stopped for: bytes with `PADDING`, and offsets."""
    begin, missing = work.state[_BEGIN], work.state[_MISSES]
    ends, misses = work.ends, work.misses
    offsets = np.empty(missing + 1, dtype=np.int64)
    offsets[0] = 0
    for i in range(missing):
        word = misses[i]
        start = ends[word - 1] if word > 0 else 0
        offsets[i + 1] = offsets[i] + ends[word] - start
    found = np.empty(offsets[missing] + PADDING, dtype=np.uint8)
    for i in range(missing):
        start = begin + ends[misses[i]] - (offsets[i + 1] - offsets[i])
        for at in range(offsets[i + 1] - offsets[i]):
            found[offsets[i] + at] = data[start + at]
    return found, offsets


@njit(
    types.void(WORK, READ_INTS, TABLE, _READ_IDS, READ_INTS, types.int32[::1], types.int64[::1]),
    cache=True,
    nogil=True,
)
def finish_block(
    work: Work,
    offsets: Ints,
    cache: Table,
    new: Ids,
    new_offsets: Ints,
    ids: Ids,
    id_offsets: Ints,
) -> None:
    """Write the ids of the block at which `advance` stopped, with those of its new words.

    Shapes: new (N,) int32, new_offsets (misses + 1,) int64; the others as in `advance`.
    """
    state, cuts, places = work.state, work.cuts, work.places
    slots, cached_ids = cache.slots, cache.ids
    end = state[_END]
    document = state[_DOCUMENT]
    word = state[_WRITTEN]
    for cut in range(state[_CUT], state[_CUTS] + 1):
        limit = cuts[cut] if cut < state[_CUTS] else state[_WORDS]
        while word < limit:
            place = places[word]
            if place >= 0:
                meta, pair = slots[place + META], slots[place + PAIR]
                tokens = np.int64((meta >> TOKENS) & SIZE)
                if tokens <= INLINE:
                    ids[end] = np.int32(meta >> HALF)
                    ids[end + 1] = np.int32(pair & LOW)
                    ids[end + 2] = np.int32(pair >> HALF)
                    end += tokens
                else:
                    end = copy_ids(slots, place, cached_ids, ids, end)
            else:
                for i in range(new_offsets[-1 - place], new_offsets[-place]):
                    ids[end] = new[i]
                    end += 1
            word += 1
        if cut < state[_CUTS]:
            document += 1
            id_offsets[document] = end
    state[_END] = end
    state[_DOCUMENT] = document
