"""The merges that build each token of a BPE vocabulary, found by replaying them.

A vocabulary may list several merges for one token, and the first listed one is often not the one
that is applied. The merge that is applied last in the encoding of the token's own string is: a
token in a longer word develops as it does alone, because no merge crosses its ends. So one merge
for each token describes all derivations, and non-applied merges never build a token.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import BoolArray, Int32Array, Int64Array
from modtok_cli.core.segment import Pairs

GIVEN = -1
"""No merge builds the token: it is a single character or a byte."""
UNREACHED = -2
"""Encoding the token's string does not give the token."""


def symbols_of(
    texts: Sequence[str], ids: Mapping[str, int], fallback: bool
) -> tuple[Int32Array, Int64Array]:
    """The symbols that merging starts from: flat ids (N,) and offsets (len(texts) + 1,).

    One symbol for each character; with `fallback`, a character that is no token is spelled by the
    tokens `<0x00>` to `<0xFF>` of its bytes. -1 is a character without a token.
    """
    points = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
    table = np.full(0x110000, -1, dtype=np.int32)
    for name, index in ids.items():
        if len(name) == 1:
            table[ord(name)] = index
    flat = table[points]
    spelled: dict[int, list[int]] = {}
    if fallback:
        for point in np.unique(points[flat < 0]).tolist():
            names = (f"<0x{byte:02X}>" for byte in chr(point).encode("utf-8", "surrogatepass"))
            bytes_of = [ids.get(name, -1) for name in names]
            if -1 not in bytes_of:
                spelled[point] = bytes_of
    offsets = np.zeros(len(texts) + 1, dtype=np.int64)
    if not spelled:
        np.cumsum(lengths, out=offsets[1:])
        return flat, offsets
    sizes = np.ones(len(flat), dtype=np.int64)
    rare = np.flatnonzero(flat < 0)
    for at in rare.tolist():
        sizes[at] = len(spelled.get(int(points[at]), [-1]))
    ends = np.concatenate([[0], np.cumsum(sizes)])
    result = np.repeat(flat, sizes)
    for at in rare.tolist():
        if int(points[at]) in spelled:
            result[ends[at] : ends[at + 1]] = spelled[int(points[at])]
    np.cumsum(lengths, out=offsets[1:])
    return result, ends[offsets]


def derivation(
    symbols: Int32Array, offsets: Int64Array, wanted: Int32Array, merges: Int32Array
) -> Int32Array:
    """Rank of the merge that builds each token; (W,) int32, `GIVEN` or `UNREACHED` without.

    Token `wanted[i]` is spelled by `symbols[offsets[i]:offsets[i + 1]]`; merges (M, 3) in rank
    order.
    """
    results, last = Pairs(merges).last_merges(symbols, offsets)
    return np.where(results == wanted, last, np.int32(UNREACHED)).astype(np.int32)


def closed(mask: BoolArray, ranks: Int32Array, merges: Int32Array) -> BoolArray:
    """`mask` (V,) with every token that the derivations of its tokens pass through.

    ranks (V,) int32 is what `derivation` gave for every token.
    """
    result = mask.copy()
    fresh: npt.NDArray[np.integer] = np.flatnonzero(result)
    while len(fresh):
        parts = np.unique(merges[ranks[fresh][ranks[fresh] >= 0], :2])
        fresh = parts[~result[parts]]
        result[fresh] = True
    return result


def prune(
    mask: BoolArray,
    counts: Int64Array,
    ranks: Int32Array,
    merges: Int32Array,
    pieces: Int64Array,
    size: int,
    loss: int,
) -> BoolArray:
    """Remove the tokens whose loss costs least from `mask` (V,), which is closed.

    Removes until `size` tokens are left, or until the next removal would cost more than what
    remains of `loss` tokens of text. A token that another kept token is built from stays. A removed
    token is spelled by its two parts, which inherit its count (V,); or by `pieces[i]` tokens, if no
    merge builds it. 0 pieces: the token stays.

    Example: merges a b → ab, ab c → abc, counts of a and b 5, ab 3, abc 1, and a size of 3: abc and
    then c are removed, and cost one token of text each time that they occur.
    """
    members = mask.copy()
    counts = counts.copy()
    chosen = np.flatnonzero(members & (ranks >= 0))
    users = np.zeros(len(members), dtype=np.int64)
    np.add.at(users, merges[ranks[chosen], :2].reshape(-1), 1)
    left = int(members.sum())

    def cost(index: int) -> tuple[int, int]:
        return int(counts[index] * (pieces[index] - 1)), -index

    free = members & (pieces > 0)
    heap = [cost(index) for index in np.flatnonzero(free & (users == 0)).tolist()]
    heapq.heapify(heap)
    while heap and left > size:
        price, index = heapq.heappop(heap)
        index = -index
        if price > loss:
            break
        loss -= price
        members[index] = False
        left -= 1
        if ranks[index] < 0:
            continue
        for part in merges[ranks[index], :2].tolist():
            counts[part] += counts[index]
            users[part] -= 1
            if users[part] == 0 and free[part]:
                heapq.heappush(heap, cost(part))
    return members
