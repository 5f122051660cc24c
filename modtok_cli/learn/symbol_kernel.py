"""The symbols that merging starts from: bytes, or characters with bytes for those without a token.

Of an adopted tokenizer, the tokens that were added to its vocabulary are found first, as the
library finds them: at each position from the left the longest. What is between them is merged.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.learn.array_types import I32, I64, U8, U64
from modtok_cli.learn.hugepages import advise_huge_pages, with_edge
from modtok_cli.learn.merge_kernel import merge_spans
from modtok_cli.learn.unit_kernel import base_of, label_of, value_of

Ids = npt.NDArray[np.int32]
Units = npt.NDArray[np.uint64]

POINTS = 0x110000
_RAGGED = types.Tuple((types.int32[::1], types.int64[::1]))  # type: ignore[no-untyped-call]


def _empty_ids() -> Ids:
    return np.zeros(0, dtype=np.int32)


class Symbols(NamedTuple):
    """Which token each byte, each character and each added token is.

    byte_ids (256,) int32, -1 for a byte that the library leaves out; characters (POINTS,) int32,
    -1 where bytes spell the character, or empty, if bytes spell all text; trie (U,) uint64, of
    added tokens, or empty; added (A,) int32, their ids by their number in the trie, -1 for those
    that a text never contains as such.
    """

    byte_ids: Ids
    characters: Ids = _empty_ids()
    trie: Units = np.zeros(0, dtype=np.uint64)
    added: Ids = _empty_ids()


@njit(inline="always")
def _spell(data, start, stop, byte_ids, characters, symbols, end):  # type: ignore[no-untyped-def]
    """Symbols of data[start:stop] into `symbols[end:]`; returns their end."""
    if len(characters) == 0:
        for at in range(start, stop):
            symbols[end] = byte_ids[data[at]]
            end += byte_ids[data[at]] >= 0
        return end
    at = start
    while at < stop:
        lead = np.int64(data[at])
        size = 1
        point = lead
        if lead >= 0x80:
            size = 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            point = lead & (0x7F >> size)
            whole = lead >= 0xC2 and lead < 0xF5 and at + size <= stop
            if whole:
                for i in range(1, size):
                    whole = whole and (data[at + i] & 0xC0) == 0x80
                    point = (point << 6) | (np.int64(data[at + i]) & 0x3F)
            if not whole or point >= POINTS:  # not UTF-8
                size = 1
                point = np.int64(-1)
        if point >= 0 and characters[point] >= 0:
            symbols[end] = characters[point]
            end += 1
        else:
            for i in range(size):
                symbols[end] = byte_ids[data[at + i]]
                end += 1
        at += size
    return end


@njit
def _next_added(data, at, stop, trie):  # type: ignore[no-untyped-def]
    """Begin, size and number of the first added token of data[at:stop]; size 0 if there is none."""
    while at < stop:
        longest = 0
        number = np.int64(-1)
        node = trie[0]
        for i in range(at, stop):
            base = base_of(node)
            if base == 0:
                break
            node = trie[base ^ np.int64(data[i])]
            if label_of(node) != data[i]:
                break
            if value_of(node) >= 0:
                number = value_of(node)
                longest = i + 1 - at
        if longest:
            return at, longest, number
        at += 1
    return stop, 0, np.int64(-1)


@njit(
    [_RAGGED(U8, I64, I64, I32, I32, U64, I32, U64)],
    cache=True,
    nogil=True,
)
def merge_words(
    data: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    stops: npt.NDArray[np.int64],
    byte_ids: Ids,
    characters: Ids,
    trie: Units,
    added: Ids,
    pairs: Units,
) -> tuple[Ids, npt.NDArray[np.int64]]:
    """Token ids of each word data[starts[i]:stops[i]].

    Shapes: data (B,) uint8; starts, stops (W,) int64; byte_ids … added a `Symbols`; pairs a
    `merge_kernel.pair_table`. Returns ids (N,) int32 and id_offsets (W + 1,) int64.
    """
    words = len(starts)
    size = 0
    for word in range(words):
        size += stops[word] - starts[word]
    room = np.empty(with_edge(size + 1, 4), dtype=np.int32)
    edge = advise_huge_pages(room)
    symbols = room[edge : edge + size + 1]
    # A word is one span of symbols to merge, or several about its added tokens.
    most_spans = words + 2 * size * (len(trie) > 0)
    offsets_room = np.empty(with_edge(most_spans + 1, 8), dtype=np.int64)
    edge = advise_huge_pages(offsets_room)
    span_offsets = offsets_room[edge : edge + most_spans + 1]
    word_spans = np.empty(words + 1 if len(trie) else 0, dtype=np.int64)
    span_offsets[0] = 0
    spans = 0
    end = 0
    for word in range(words):
        first, stop = starts[word], stops[word]
        if len(trie):
            at, longest, number = _next_added(data, first, stop, trie)
            while longest:
                if added[number] >= 0:
                    end = _spell(data, first, at, byte_ids, characters, symbols, end)
                    span_offsets[spans + 1] = end
                    symbols[end] = added[number]
                    end += 1
                    spans += 2
                    span_offsets[spans] = end
                    first = at + longest
                at, longest, number = _next_added(data, at + longest, stop, trie)
        end = _spell(data, first, stop, byte_ids, characters, symbols, end)
        spans += 1
        span_offsets[spans] = end
        if len(trie):
            word_spans[word + 1] = spans
    sizes = np.empty(spans, dtype=np.int64)
    merge_spans(symbols, span_offsets[: spans + 1], pairs, sizes)
    id_offsets = np.empty(words + 1, dtype=np.int64)
    id_offsets[0] = 0
    end = 0
    span = 0
    for word in range(words):
        last = word_spans[word + 1] if len(trie) else word + 1
        while span < last:
            first = span_offsets[span]
            for at in range(first, first + sizes[span]):
                symbols[end] = symbols[at]
                end += 1
            span += 1
        id_offsets[word + 1] = end
    return symbols[:end].copy(), id_offsets
