"""The cost of removing a token: segmentation into fewest tokens with and without it.

The edges of a word are the positions where a token of the vocabulary matches (from, to,
token). The cost of a word is the fewest tokens over all edges; its cost without a token is the
same without the edges of that token.

A token with one edge in the word is the usual case: every path passes the position before the
end of that edge by one edge, so the cost without it is the least cost of a path through another
edge there. For tokens with several edges all paths are computed again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.learn.array_kernel import resized_rows
from modtok_cli.learn.unit_kernel import base_of, label_of, value_of

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Units = npt.NDArray[np.uint64]

# Longer words are processed in portions of this many bytes: 100,000 dashes must not take
# quadratic time, and no token is that long.
PORTION = 256

_RESULT = types.Tuple((types.int64[::1], types.int64[::1], types.int64))  # type: ignore[no-untyped-call]


@njit(
    [
        _RESULT(
            types.Array(types.uint8, 1, "C", readonly=True), types.int64[::1], types.int64[::1],
            types.uint64[::1], types.float64[::1], types.uint8[::1], types.uint8[::1],
        )
    ],
    cache=True,
    nogil=True,
)  # fmt: skip
def removal_losses(
    data: Bytes,
    offsets: Ints,
    counts: Ints,
    units: Units,
    scores: Floats,
    active: Bytes,
    removable: Bytes,
) -> tuple[Ints, Ints, int]:
    """Number of additional tokens without each single token.

    Shapes: data (B,) uint8; offsets (W + 1,), counts (W,) int64; units `trie.build_trie` of
    tokens by id, every byte an active one; scores (V,) float64, which decide between
    segmentations of equally many tokens; active, removable (V,) uint8.

    Returns losses (V,) int64, 0 for tokens that are not removable; token_counts (V,) int64, how
    often each token occurs in the segmented words; and the number of tokens of all words.

    With a, b, ab and the word "ab" counted 3 times: the token count of ab is 3, its loss 3.
    """
    vocabulary = len(scores)
    losses = np.zeros(vocabulary, dtype=np.int64)
    token_counts = np.zeros(vocabulary, dtype=np.int64)
    grand: Any = np.int64(0)
    edges_of = np.zeros(vocabulary, dtype=np.int32)
    best = np.empty(PORTION + 1, dtype=np.int64)
    fewest = np.empty(PORTION + 1, dtype=np.int64)  # tokens from the start to a position
    rest = np.empty(PORTION + 1, dtype=np.int64)  # tokens from a position to the end
    first = np.empty(PORTION + 1, dtype=np.int64)  # number of the first edge from a position
    total = np.empty(PORTION + 1, dtype=np.float64)
    chosen = np.empty(PORTION + 1, dtype=np.int64)
    room = 4096
    edges = np.empty((room, 3), dtype=np.int32)
    path = np.empty(PORTION, dtype=np.int64)
    ends = np.empty(PORTION, dtype=np.int64)
    root = base_of(units[0])
    for word in range(len(offsets) - 1):
        count = counts[word]
        start = offsets[word]
        while start < offsets[word + 1]:
            stop = min(offsets[word + 1], start + PORTION)
            size = stop - start
            for i in range(size + 1):
                best[i] = 1 << 40
            best[0] = 0
            total[0] = 0.0
            found = 0
            longest = 0
            for i in range(size):
                first[i] = found
                base = root
                j = i
                while base != 0 and j < size:
                    byte = np.uint64(data[start + j])
                    unit = units[base ^ np.int64(byte)]
                    if label_of(unit) != byte:
                        break
                    base = base_of(unit)
                    j += 1
                    token = value_of(unit)
                    if token < 0 or active[token] == 0:
                        continue
                    if found == room:
                        edges = resized_rows(edges, room, 2 * room)
                        room *= 2
                    edges[found, 0] = i
                    edges[found, 1] = j
                    edges[found, 2] = token
                    edges_of[token] += 1
                    longest = max(longest, j - i)
                    score = total[i] + scores[token]
                    if best[i] + 1 < best[j] or (best[i] + 1 == best[j] and score > total[j]):
                        best[j] = best[i] + 1
                        total[j] = score
                        chosen[j] = found
                    found += 1
            first[size] = found
            least = best[size]
            grand += count * least
            for i in range(size + 1):
                fewest[i] = best[i]
            rest[size] = 0
            for i in range(size - 1, -1, -1):
                rest[i] = 1 << 40
                for edge in range(first[i], first[i + 1]):
                    rest[i] = min(rest[i], rest[edges[edge, 1]] + 1)
            place = size
            length = 0
            while place > 0:
                edge = chosen[place]
                path[length] = edges[edge, 2]
                ends[length] = place
                length += 1
                place = np.int64(edges[edge, 0])
            for at in range(length):
                token = path[at]
                token_counts[token] += count
                if removable[token] == 0:
                    continue
                if edges_of[token] == 1:
                    stop_of_edge = ends[at]
                    without: Any = np.int64(1 << 40)
                    for i in range(max(0, stop_of_edge - longest), stop_of_edge):
                        for edge in range(first[i], first[i + 1]):
                            to: Any = np.int64(edges[edge, 1])
                            if to >= stop_of_edge and edges[edge, 2] != token:
                                without = min(without, fewest[i] + 1 + rest[to])
                    losses[token] += count * (without - least)
                    continue
                again = False
                for other in range(at):
                    again = again or path[other] == token
                if again:
                    continue
                for i in range(1, size + 1):
                    best[i] = 1 << 40
                best[0] = 0
                for edge in range(found):
                    tokens = best[edges[edge, 0]] + 1
                    if tokens < best[edges[edge, 1]] and edges[edge, 2] != token:
                        best[edges[edge, 1]] = tokens
                losses[token] += count * (best[size] - least)
            for edge in range(found):
                edges_of[edges[edge, 2]] = 0
            start = stop
    return losses, token_counts, grand
