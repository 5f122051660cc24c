"""The E-step of Unigram: forward-backward over words, each weighted by its count.

Probabilities are added directly, not as logarithms. To keep them within the range of floats,
each byte of a piece multiplies its weight by a constant s, w(v) = p(v) s^|v|: all
segmentations of a word have the same number of bytes, so that all are scaled equally and
expectations do not change. Words that still leave the safe range (mostly very long ones) are
computed again with logarithms.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import types

from modtok_cli.base.jit import njit
from modtok_cli.learn.array_kernel import resized
from modtok_cli.text.code_point_kernel import character_length

Bytes = npt.NDArray[np.uint8]
Ids = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Units = npt.NDArray[np.uint64]

# Within these bounds of the forward sums (the smallest above 0) no backward sum can overflow,
# and what underflows (below 1e-308) is negligible.
_LARGE = 1e100
_SMALL = 1e-100
_SMALLEST = 1e-200

_ZERO = np.uint64(0)
_ONE = np.uint64(1)
# An edge is one number: its start, and the value of its piece in a unit (0 for bytes).
_START = np.uint64(32)
_TWO = np.uint64(2)
_HIGH = np.uint64(0xC0)
_CONTINUES = np.uint64(0x80)
# The layout of units, see `unit_kernel`.
_LABEL = np.uint64(0x1FF)
_VALUE = np.uint64(9)
_VALUES = np.uint64(0x7FFFFFF)
_BASE = np.uint64(36)

_BYTES = types.Array(types.uint8, 1, "C", readonly=True)


@njit()
def _log_add(a, b):  # type: ignore[no-untyped-def]
    """Logarithm of the sum of two numbers given by their logarithms."""
    if a < b:
        a, b = b, a
    if b == -math.inf:
        return a
    return a + math.log1p(math.exp(b - a))


@njit()
def _log(a):  # type: ignore[no-untyped-def]
    """Logarithm of a number of 0 or more."""
    return math.log(a) if a > 0.0 else -math.inf


@njit()
def _length(lead):  # type: ignore[no-untyped-def]
    """Bytes of the character that begins with byte `lead`."""
    return np.uint64(character_length(lead))


@njit(
    [
        types.float64(
            _BYTES, types.int64[::1], types.float64[::1], types.int64, types.int64,
            types.uint64[::1], types.float64[:, ::1], types.int32[::1], types.float64,
        )
    ],
    cache=True,
    nogil=True,
)  # fmt: skip
def expect(
    data: Bytes,
    offsets: Ints,
    counts: Floats,
    first: int,
    last: int,
    units: Units,
    table: Floats,
    byte_entries: Ids,
    log_scale: float,
) -> float:
    """Add the expected counts of words first … last - 1 to the table; return their likelihood.

    The likelihood is the sum of counts[w] × ln(alpha(n) of word w), without the scaling.

    Shapes: data (B,) uint8, whole UTF-8 characters; offsets (W + 1,) int64; counts (W,)
    float64, at least 0; units `trie.build_trie` of the pieces; table (V + 1, 2) float64: in
    row v + 1 the weight of v, p(v) times exp(log_scale) for every byte of v, and its
    expected count, adjacent because both are accessed within a word; row 0 is all 0;
    byte_entries (256,) int32: the rows of the bytes.

    A character that is not a piece may be spelled in bytes: an edge with the product of their
    weights, and its expected count is added to each of them.
    """
    longest = 0
    for word in range(first, last):
        longest = max(longest, offsets[word + 1] - offsets[word])
    alpha = np.zeros(longest + 1, dtype=np.float64)
    beta = np.zeros(longest + 1, dtype=np.float64)
    # Edges that end at position j are those from edge_end[j - 1] to edge_end[j]: their start and
    # piece (0: bytes) in one number, and their weight. Walks down the trie that are still open
    # at position j likewise: their start, and the base to continue from.
    edge_end = np.zeros(longest + 1, dtype=np.uint64)
    walk_end = np.zeros(longest + 1, dtype=np.uint64)
    # The first byte of the character that contains or ends at position j.
    lead = np.zeros(longest + 1, dtype=np.uint64)
    # Largest and smallest forward sum (above 0) up to a position.
    largest = np.ones(longest + 1, dtype=np.float64)
    smallest = np.ones(longest + 1, dtype=np.float64)
    room = np.uint64(1024)
    links = np.empty(room, dtype=np.uint64)
    gains = np.empty(room, dtype=np.float64)
    origins = np.empty(room, dtype=np.uint64)
    bases = np.empty(room, dtype=np.uint64)
    root = units[0] >> _BASE
    alpha[0] = 1.0
    likelihood = 0.0
    kept = _ZERO
    old = _ZERO
    # Unsigned indices need no test for negative values.
    for word in range(first, last):
        count = counts[word]
        start = np.uint64(offsets[word])
        size = np.uint64(offsets[word + 1]) - start
        if size == _ZERO or count == 0.0:
            continue
        # The common prefix with the previous word (words are sorted) is already computed.
        same = _ZERO
        while same < kept and same < size and data[old + same] == data[start + same]:
            same += _ONE
        for j in range(same + _ONE, size + _ONE):
            at = start + j - _ONE
            byte = np.uint64(data[at])
            edges = edge_end[j - _ONE]
            walk = walk_end[j - _TWO] if j > _ONE else _ZERO
            walks = walk_end[j - _ONE]
            # A new walk starts here, and every walk may add a walk and an edge.
            most = max(edges, walks) + walks - walk + _TWO
            if most > room:
                room = _TWO * most
                links = resized(links, len(links), np.int64(room))
                gains = resized(gains, len(gains), np.int64(room))
                origins = resized(origins, len(origins), np.int64(room))
                bases = resized(bases, len(bases), np.int64(room))
            if (byte & _HIGH) != _CONTINUES:
                begin = j - _ONE
                origins[walks] = begin
                bases[walks] = root
                stop = walks + _ONE
            else:
                begin = lead[j - _ONE]
                stop = walks
            # The walk that starts here is overwritten only after it was read.
            here = 0.0
            single = _ZERO
            next_walk = stop
            while walk < stop:
                origin = origins[walk]
                unit = units[bases[walk] ^ byte]
                # Without branches, half of which would be mispredicted: a walk that ends, or has
                # no piece here, is written but not counted.
                alive = np.uint64((unit & _LABEL) == byte)
                value = ((unit >> _VALUE) & _VALUES) * alive
                base = (unit >> _BASE) * alive
                gain = table[value, 0]
                ends = np.uint64(value != _ZERO)
                links[edges] = (origin << _START) | value
                gains[edges] = gain
                edges += ends
                single |= ends & np.uint64(origin == begin)
                here += alpha[origin] * gain
                origins[next_walk] = origin
                bases[next_walk] = base
                next_walk += np.uint64(base != _ZERO)
                walk += _ONE
            if single == _ZERO and j == begin + _length(data[start + begin]):
                gain = 1.0
                for i in range(start + begin, start + j):
                    gain *= table[byte_entries[data[i]], 0]
                links[edges] = begin << _START
                gains[edges] = gain
                edges += _ONE
                here += alpha[begin] * gain
            # The walks of position j are those after `stop`; move them down to `walks`, over the
            # walk that started here, which is no longer needed.
            if stop > walks:
                for i in range(stop, next_walk):
                    origins[i - _ONE] = origins[i]
                    bases[i - _ONE] = bases[i]
                next_walk -= _ONE
            lead[j] = begin
            alpha[j] = here
            edge_end[j] = edges
            walk_end[j] = next_walk
            largest[j] = max(largest[j - _ONE], here)
            smallest[j] = min(smallest[j - _ONE], here) if here > 0.0 else smallest[j - _ONE]
        kept = size
        old = start
        total = alpha[size]
        if largest[size] < _LARGE and smallest[size] > _SMALLEST and total > _SMALL:
            # Backward, with the share of each edge. alpha(i) beta(i) is at most alpha(n), so beta
            # cannot overflow where alpha is not 0; where it is 0, no path passes.
            share = count / total
            for j in range(size):
                beta[j] = 0.0
            beta[size] = 1.0
            place = size
            while place > _ZERO:
                behind = beta[place]
                low = edge_end[place - _ONE]
                high = edge_end[place]
                if alpha[place] == 0.0:
                    high = low
                for edge in range(low, high):
                    link = links[edge]
                    origin = link >> _START
                    value = link & _VALUES
                    gain = gains[edge]
                    beta[origin] += gain * behind
                    part = alpha[origin] * gain * behind * share
                    if value != _ZERO:
                        table[value, 1] += part
                    else:
                        for byte_at in range(start + origin, start + place):
                            table[byte_entries[data[byte_at]], 1] += part
                place -= _ONE
            likelihood += count * (math.log(total) - size * log_scale)
            continue
        # Out of range: the same with logarithms, on the edges of the forward pass.
        kept = _ZERO
        for j in range(_ONE, size + _ONE):
            alpha[j] = -math.inf
            beta[j] = -math.inf
        alpha[0] = 0.0
        beta[0] = -math.inf
        for j in range(_ONE, size + _ONE):
            for edge in range(edge_end[j - _ONE], edge_end[j]):
                origin = links[edge] >> _START
                if links[edge] & _VALUES != _ZERO:
                    gain = _log(gains[edge])
                else:
                    gain = 0.0
                    for byte_at in range(start + origin, start + j):
                        gain += _log(table[byte_entries[data[byte_at]], 0])
                gains[edge] = gain
                alpha[j] = _log_add(alpha[j], alpha[origin] + gain)
        total = alpha[size]
        likelihood += count * (total - size * log_scale)
        beta[size] = 0.0
        place = size
        while place > _ZERO and total > -math.inf:
            for edge in range(edge_end[place - _ONE], edge_end[place]):
                origin = links[edge] >> _START
                value = links[edge] & _VALUES
                power = gains[edge] + beta[place]
                beta[origin] = _log_add(beta[origin], power)
                part = count * math.exp(alpha[origin] + power - total)
                if value != _ZERO:
                    table[value, 1] += part
                else:
                    for byte_at in range(start + origin, start + place):
                        table[byte_entries[data[byte_at]], 1] += part
            place -= _ONE
        alpha[0] = 1.0
    return likelihood
