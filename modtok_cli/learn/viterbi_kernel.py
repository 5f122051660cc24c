"""Best segmentation of words into the pieces of a subset, by dynamic programming over a trie.

One search serves two segmentations. Unigram: the greatest sum of scores. Fewest tokens: the
fewest tokens, and among those the greatest sum. Both are "fewest `each` × tokens, then
greatest sum", with `each` 0 or 1.

Ties: of two best paths to a position the one with the longer last piece wins, as in
SentencePiece and the `tokenizers` library: both visit positions in ascending order and replace
a path only by one that is strictly better.

Fewest tokens: once some path spells the whole word in t tokens, positions that need t tokens or
more are passed over. Every path through one of them has more than t, so no result changes, ties
included. Four in ten positions of new English and French words are.

A character that no active piece spells (no piece that is just this character) may be
written in bytes: an edge over the whole character with the score `unknown`, which stands
for as many tokens as the character has bytes. SentencePiece and `tokenizers` set `unknown`
to the least score of an ordinary piece minus 10.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.learn.unit_kernel import BASE_SHIFT, LABEL_BITS, label_of
from modtok_cli.text.code_point_kernel import character_length

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Units = npt.NDArray[np.uint64]

# Read-only in the signature: such a function takes arrays of either kind.
_BYTES = types.Array(types.uint8, 1, "C", readonly=True)
_INTS = types.Array(types.int64, 1, "C", readonly=True)
_UNITS = types.Array(types.uint64, 1, "C", readonly=True)
_SCORES = types.Array(types.float64, 1, "C", readonly=True)
_IDS = types.Array(types.int32, 1, "C", readonly=True)
_RAGGED = types.Tuple((types.int32[::1], types.int64[::1]))  # type: ignore[no-untyped-call]

# Indices are unsigned: numba would look at every other one for a negative number.
_ZERO, _ONE = np.uint64(0), np.uint64(1)
_BASE, _LABEL = np.uint64(BASE_SHIFT), np.uint64(LABEL_BITS)
_VALUES = np.uint64((1 << (BASE_SHIFT - LABEL_BITS)) - 1)
_HALF, _LOW = np.uint64(32), np.uint64((1 << 32) - 1)
_UNREACHED = 1 << 62
"""Tokens of a path to a position that no path reaches."""


@njit(
    [
        _RAGGED(
            _BYTES, _INTS, _INTS, _UNITS, _SCORES, _BYTES,
            _IDS, types.float64, types.int64, types.boolean,
        )
    ],
    cache=True,
    nogil=True,
)  # fmt: skip
def viterbi_words(
    data: Bytes,
    starts: Ints,
    stops: Ints,
    units: Units,
    scores: Floats,
    active: Bytes,
    byte_ids: Ids,
    unknown: float,
    each: int,
    fallback: bool,
) -> tuple[Ids, Ints]:
    """Ids of the best segmentation of every word data[starts[i]:stops[i]].

    Shapes: data (B,) uint8, whole UTF-8 characters; starts, stops (W,) int64; units
    `trie.build_trie` of all pieces under their ids; scores (V,) float64; active (V,) uint8,
    1 for the pieces of the subset; byte_ids (256,) int32, used by `fallback` alone.
    `unknown`: score of a character written in bytes; `each`: 0 Unigram, 1 fewest tokens.

    Returns ids (N,) int32 and their offsets (W + 1,) int64. A word that cannot be spelled gives -1
    for each byte; with `fallback`, or with every byte an active piece, there is none.

    With pieces a (-1), b (-1), ab (-3): Unigram splits "ab" into a, b; fewest tokens gives ab.
    """
    words = len(starts)
    longest = 0
    room = 0
    for word in range(words):
        length = stops[word] - starts[word]
        longest = max(longest, length)
        room += length
    totals = np.empty(longest + 1, dtype=np.float64)
    tokens = np.empty(longest + 1, dtype=np.int64)
    # Of the best path to a position: where its last piece begins << 32 | 1 + the piece, 0 if bytes.
    lasts = np.empty(longest + 1, dtype=np.uint64)
    ids = np.empty(room, dtype=np.int32)
    ends = np.empty(words + 1, dtype=np.int64)
    ends[0] = 0
    end = 0
    root = units[0] >> _BASE
    for word in range(words):
        start = np.uint64(starts[word])
        size = np.uint64(stops[word]) - start
        for index in range(_ONE, size + _ONE):
            tokens[np.uint64(index)] = _UNREACHED
        totals[0] = 0.0
        tokens[0] = 0
        for index in range(size):
            i = np.uint64(index)
            # A path through here to the end has more tokens than the one that is there.
            if tokens[i] == _UNREACHED or tokens[i] > tokens[size] - each:
                continue
            total = totals[i]
            number = tokens[i] + each
            whole = np.uint64(character_length(data[start + i]))
            single = False
            base = root
            j = i
            while base != _ZERO and j < size:
                byte = np.uint64(data[start + j])
                unit = units[base ^ byte]
                if label_of(unit) != byte:
                    break
                base = unit >> _BASE
                j += _ONE
                value = (unit >> _LABEL) & _VALUES  # see `unit_kernel`
                if value == _ZERO or active[value - _ONE] == 0:
                    continue
                single |= j - i == whole
                score = total + scores[value - _ONE]
                if number < tokens[j] or (number == tokens[j] and score > totals[j]):
                    totals[j] = score
                    tokens[j] = number
                    lasts[j] = (i << _HALF) | value
            if single or not fallback:
                continue
            j = min(i + whole, size)
            number = tokens[i] + each * np.int64(j - i)
            score = total + unknown
            if number < tokens[j] or (number == tokens[j] and score > totals[j]):
                totals[j] = score
                tokens[j] = number
                lasts[j] = i << _HALF
        if tokens[size] == _UNREACHED:  # it cannot be spelled
            for _ in range(size):
                ids[end] = -1
                end += 1
            ends[word + 1] = end
            continue
        # Positions are traced back from the end, so the ids are reversed.
        first = end
        place = np.int64(size)
        while place > 0:
            last_piece = lasts[np.uint64(place)]
            origin = np.int64(last_piece >> _HALF)
            value = last_piece & _LOW
            if value != _ZERO:
                ids[end] = np.int32(value - _ONE)
                end += 1
            else:
                for index in range(place - 1, origin - 1, -1):
                    ids[end] = byte_ids[data[np.int64(start) + index]]
                    end += 1
            place = origin
        last = end - 1
        while first < last:
            ids[first], ids[last] = ids[last], ids[first]
            first += 1
            last -= 1
        ends[word + 1] = end
    return ids[:end].copy(), ends
