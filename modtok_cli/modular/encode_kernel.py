"""Text to token ids block by block: split into words, look each up, merge it only if it is new."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.learn.word_kernel import I32, I64, MERGES, SHORT, U8, U64
from modtok_cli.modular.symbol_kernel import merge_word
from modtok_cli.modular.word_cache import LONGEST_CACHED, copy_ids, keep, look_up
from modtok_cli.text.split_kernel import BLOCK, next_block

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]

_RAGGED = types.Tuple((types.int32[::1], types.int64[::1]))  # type: ignore[no-untyped-call]


@njit(
    [
        _RAGGED(
            U8, I64, I64, U8, I32, I32, U64, I32, MERGES, U64, I32, U8,
            types.int64[:, ::1], types.uint8[::1], types.int32[::1], types.int64[::1],
        )
    ],
    cache=True,
    nogil=True,
)  # fmt: skip
def encode_texts(
    data: Bytes,
    offsets: Ints,
    entry: Ints,
    table: Bytes,
    byte_ids: Ids,
    characters: Ids,
    trie: npt.NDArray[np.uint64],
    added: Ids,
    merges: Ids,
    keys: npt.NDArray[np.uint64],
    ranks: Ids,
    active: Bytes,
    slots: Ints,
    word_arena: Bytes,
    id_arena: Ids,
    fill: Ints,
) -> tuple[Ids, Ints]:
    """Token ids of each text `data[offsets[i]:offsets[i + 1]]`; bytes without a token give none.

    Shapes: data (B,) uint8, UTF-8; offsets (D + 1,) int64; entry and table a
    `pretokenizer.Splitter`; byte_ids … added a `symbol_kernel.Symbols`; merges … active as in
    `learn.word_kernel.encode_words`; the last four are a cache made by `word_cache.new_cache` for
    these very symbols and merges, which no other thread may be using. Returns ids (N,) int32 and
    id_offsets (D + 1,) int64.
    """
    texts = len(offsets) - 1
    ids = np.empty(offsets[texts] - offsets[0], dtype=np.int32)
    id_offsets = np.empty(texts + 1, dtype=np.int64)
    id_offsets[0] = 0
    scratch = np.empty(SHORT, dtype=np.int64)
    room = min(BLOCK, offsets[texts] - offsets[0]) + 2
    classes = np.empty(room, dtype=np.uint8)
    word_ends = np.empty(room, dtype=np.int32)
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
                after = merge_word(
                    data, start, cut, byte_ids, characters, trie, added, merges, keys, ranks,
                    active, scratch, ids, end,
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
