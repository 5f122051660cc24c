"""Text to token ids block by block: split into words, look each up, search only if it is new.

The counterpart of `encode_kernel`, with the same cache of words, for Unigram and for fewest
tokens: the masked Viterbi search.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.learn.viterbi_kernel import best_path
from modtok_cli.modular.word_cache import LONGEST_CACHED, copy_ids, keep, look_up
from modtok_cli.text.split_kernel import BLOCK, next_block

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Units = npt.NDArray[np.uint64]

# Read-only in the signature: such a function takes arrays of either kind.
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_UNITS = types.Array(types.uint64, 1, "C", readonly=True)
_SCORES = types.Array(types.float64, 1, "C", readonly=True)
_IDS = types.Array(types.int32, 1, "C", readonly=True)
_INTS = types.Array(types.int64, 1, "C", readonly=True)
_RAGGED = types.Tuple((types.int32[::1], types.int64[::1]))  # type: ignore[no-untyped-call]


@njit(
    [
        _RAGGED(
            _BYTES, _INTS, _INTS, _BYTES, _UNITS, _SCORES, _BYTES,
            _IDS, types.float64, types.int64, types.boolean,
            types.int64[:, ::1], types.uint8[::1], types.int32[::1], types.int64[::1],
        )
    ],
    cache=True,
    nogil=True,
)  # fmt: skip
def encode_texts_by_search(
    data: Bytes,
    offsets: Ints,
    entry: Ints,
    table: Bytes,
    units: Units,
    scores: Floats,
    active: Bytes,
    byte_ids: Ids,
    unknown: float,
    each: int,
    fallback: bool,
    slots: Ints,
    word_arena: Bytes,
    id_arena: Ids,
    fill: Ints,
) -> tuple[Ids, Ints]:
    """Token ids of each text `data[offsets[i]:offsets[i + 1]]`.

    Shapes: data (B,) uint8, UTF-8; offsets (D + 1,) int64; entry and table a
    `pretokenizer.Splitter`; units … fallback as in `learn.viterbi_kernel.viterbi_words`; the
    last four are a cache made by `word_cache.new_cache` for this very subset and pre-tokenizer,
    which no other thread may be using. Returns ids (N,) int32 and id_offsets (D + 1,) int64.
    """
    texts = len(offsets) - 1
    ids = np.empty(offsets[texts] - offsets[0], dtype=np.int32)
    id_offsets = np.empty(texts + 1, dtype=np.int64)
    id_offsets[0] = 0
    room = LONGEST_CACHED + 1
    totals = np.empty(room, dtype=np.float64)
    tokens = np.empty(room, dtype=np.int64)
    origins = np.empty(room, dtype=np.int64)
    pieces = np.empty(room, dtype=np.int32)
    block_room = min(BLOCK, offsets[texts] - offsets[0]) + 2
    classes = np.empty(block_room, dtype=np.uint8)
    word_ends = np.empty(block_room, dtype=np.int32)
    end = 0
    for text in range(texts):
        block = offsets[text]
        stop = offsets[text + 1]
        while block < stop:
            words = next_block(data, block, stop, entry, table, classes, word_ends)
            start = block
            for word in range(words):
                cut = block + word_ends[word]
                size = cut - start
                code = np.int64(0)
                slot = np.int64(0)
                if size <= LONGEST_CACHED:
                    code, slot = look_up(data, start, cut, slots, word_arena)
                    if slots[slot, 0] != 0:
                        end = copy_ids(slots, slot, id_arena, ids, end)
                        start = cut
                        continue
                elif size + 1 > room:
                    room = 2 * size
                    totals = np.empty(room, dtype=np.float64)
                    tokens = np.empty(room, dtype=np.int64)
                    origins = np.empty(room, dtype=np.int64)
                    pieces = np.empty(room, dtype=np.int32)
                after = best_path(
                    data, start, cut, units, scores, active, byte_ids, unknown, each, fallback,
                    totals, tokens, origins, pieces, ids, end,
                )  # fmt: skip
                if size <= LONGEST_CACHED:
                    keep(
                        data, start, cut, ids, end, after, code, slot,
                        slots, word_arena, id_arena, fill,
                    )  # fmt: skip
                end = after
                start = cut
            block = start
        id_offsets[text + 1] = end
    return ids[:end].copy(), id_offsets
