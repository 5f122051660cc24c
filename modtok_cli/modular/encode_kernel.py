"""Text to token ids in one pass: cut a word, look it up, merge it only if it is new.

Most words of a text have been seen before, so the result of each word is kept in a cache
of bounded size: an open-addressing table of words over two arenas, one of word bytes, one
of token ids. When either is full the whole cache is emptied, which costs less than keeping
track of what is old.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit, types

from modtok_cli.learn.word_kernel import I32, I64, MERGES, SHORT, U8, U64, merge_symbols
from modtok_cli.text.bits import load64
from modtok_cli.text.pretoken_kernel import word_end

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Cache = tuple[Ints, Bytes, Ids, Ints]

# 2^16 slots of 32 bytes; a corpus of 24 MB of English has about twice as many words, of
# which those that recur fit.
SLOTS = 1 << 16
WORD_BYTES = 1 << 20
WORD_IDS = 1 << 18
# Longer words hardly recur, and would flush the others.
LONGEST_CACHED = 256

_RAGGED = types.Tuple((types.int32[::1], types.int64[::1]))  # type: ignore[no-untyped-call]
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


@njit(
    [
        _RAGGED(
            U8, I64, U8, I32, MERGES, U64, I32, U8,
            types.int64[:, ::1], types.uint8[::1], types.int32[::1], types.int64[::1],
        )
    ],
    cache=True,
    nogil=True,
)  # fmt: skip
def encode_texts(
    data: Bytes,
    offsets: Ints,
    classes: Bytes,
    byte_ids: Ids,
    merges: Ids,
    keys: npt.NDArray[np.uint64],
    ranks: Ids,
    active: Bytes,
    slots: Ints,
    word_arena: Bytes,
    id_arena: Ids,
    fill: Ints,
) -> tuple[Ids, Ints]:
    """Token ids of each text `data[offsets[i]:offsets[i + 1]]`, cut by the `bpe` pattern.

    Shapes: data (B,) uint8, UTF-8; offsets (D + 1,) int64; classes `pretokens.class_table()`;
    byte_ids … active as in `learn.word_kernel.encode_words`; the last four are a cache made by
    `new_cache` for these very merges, which no other thread may be using. Returns ids (N,)
    int32 and id_offsets (D + 1,) int64.
    """
    texts = len(offsets) - 1
    ids = np.empty(offsets[texts] - offsets[0], dtype=np.int32)
    id_offsets = np.empty(texts + 1, dtype=np.int64)
    id_offsets[0] = 0
    scratch = np.empty(SHORT, dtype=np.int64)
    mask = len(slots) - 1
    limit = len(slots) * 3 // 4
    end = 0
    for text in range(texts):
        start = offsets[text]
        stop = offsets[text + 1]
        while start < stop:
            cut = word_end(data, start, stop, classes)
            size = cut - start
            if size > LONGEST_CACHED:
                for i in range(size):
                    ids[end + i] = byte_ids[data[start + i]]
                word = ids[end : end + size]
                end += merge_symbols(word, size, merges, keys, ranks, active, scratch)
                start = cut
                continue
            code = _hash(data, start, cut)
            slot = (code >> 20) & mask
            found = False
            while slots[slot, 0] != 0:
                if slots[slot, 0] == code and (slots[slot, 3] >> 32) == size:
                    kept = slots[slot, 1]
                    same = 0
                    while same < size and word_arena[kept + same] == data[start + same]:
                        same += 1
                    if same == size:
                        found = True
                        break
                slot = (slot + 1) & mask
            if found:
                tokens = slots[slot, 3] & 0xFFFFFFFF
                kept = slots[slot, 2]
                for i in range(tokens):
                    ids[end + i] = id_arena[kept + i]
                end += tokens
                start = cut
                continue
            for i in range(size):
                ids[end + i] = byte_ids[data[start + i]]
            word = ids[end : end + size]
            tokens = merge_symbols(word, size, merges, keys, ranks, active, scratch)
            if (
                fill[0] >= limit
                or fill[1] + size > len(word_arena)
                or fill[2] + tokens > len(id_arena)
            ):
                slots[:, 0] = 0
                fill[:] = 0
                slot = (code >> 20) & mask
            slots[slot, 0] = code
            slots[slot, 1] = fill[1]
            slots[slot, 2] = fill[2]
            slots[slot, 3] = (size << 32) | tokens
            for i in range(size):
                word_arena[fill[1] + i] = data[start + i]
            for i in range(tokens):
                id_arena[fill[2] + i] = ids[end + i]
            fill[0] += 1
            fill[1] += size
            fill[2] += tokens
            end += tokens
            start = cut
        id_offsets[text + 1] = end
    return ids[:end].copy(), id_offsets
