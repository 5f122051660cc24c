"""Words to tokens: by merges, and by search for the best path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

Pairs = Mapping[tuple[int, int], tuple[int, int]]
"""(left, right) → (rank, result) of a merge."""

_NO_PAIR = (1 << 62, -1)


def pairs_of(merges: Sequence[Sequence[int]]) -> Pairs:
    """Merges (left, right, result) in rank order by pair; the first of equal pairs counts."""
    numbered = reversed(list(enumerate(merges)))
    return {(left, right): (rank, result) for rank, (left, right, result) in numbered}


def merge(ids: Sequence[int], pairs: Pairs) -> list[int]:
    """Symbols merged: of all adjacent pairs the one of lowest rank, the leftmost first.

    >>> merge([1, 2, 1, 2], {(1, 2): (0, 3), (3, 3): (1, 4)})
    [4]
    """
    left = list(ids)
    while len(left) > 1:
        found = [pairs.get(pair, _NO_PAIR) for pair in pairwise(left)]
        best = min(found)
        if best is _NO_PAIR:
            break
        at = found.index(best)
        left[at : at + 2] = [best[1]]
    return left


def search(
    word: bytes,
    pieces: Mapping[bytes, tuple[int, float]],
    *,
    each: int,
    byte_ids: Sequence[int] = (),
    unknown: float = 0.0,
    fallback: bool = False,
) -> list[int]:
    """Ids of the path of the fewest `each` × tokens, of those the one with the greatest sum.

    Of equal paths that with the longer last piece wins. pieces: bytes → (id, score). With
    `fallback`, a character that is no piece may be spelled by `byte_ids`, with the score `unknown`.
    A word that cannot be spelled gives -1 for each byte.

    >>> search(b"abc", {b"a": (0, -1), b"ab": (1, -1), b"bc": (2, -1), b"c": (3, -1)}, each=1)
    [0, 2]
    """
    size = len(word)
    longest = max(map(len, pieces), default=1)
    # Of the best path to a position: tokens, sum, where the last piece begins, its id or -1.
    best: list[tuple[int, float, int, int] | None] = [(0, 0.0, -1, -1), *[None] * size]
    for start in range(size):
        here = best[start]
        if here is None:
            continue
        whole = start + _character_length(word[start])
        edges = [
            (stop, each, score, index)
            for stop in range(start + 1, min(start + longest, size) + 1)
            for index, score in [pieces.get(word[start:stop], (-1, 0.0))]
            if index >= 0
        ]
        if fallback and whole not in (edge[0] for edge in edges):
            stop = min(whole, size)
            edges.append((stop, each * (stop - start), unknown, -1))
        for stop, more, score, index in edges:
            number, total = here[0] + more, here[1] + score
            other = best[stop]
            if other is None or number < other[0] or (number == other[0] and total > other[1]):
                best[stop] = (number, total, start, index)
    ids: list[int] = []
    place = size
    while place > 0:
        last = best[place]
        if last is None:
            return [-1] * size
        start, index = last[2], last[3]
        ids = [*([byte_ids[byte] for byte in word[start:place]] if index < 0 else [index]), *ids]
        place = start
    return ids


def _character_length(lead: int) -> int:
    """Bytes of the UTF-8 character that begins with byte `lead`."""
    return 1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
