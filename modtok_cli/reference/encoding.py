"""Words to tokens: by merges, and by search for the best path; with dropout of both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count, pairwise
from typing import TypeVar

Token = TypeVar("Token")
Pairs = Mapping[tuple[Token, Token], tuple[int, Token]]
"""(left, right) → (rank, result) of a merge."""

LeftOut = Callable[[int], bool]
"""Whether the choice of a word that has a number is left out."""

_MASK = (1 << 64) - 1


def nothing(number: int) -> bool:
    """Without dropout, nothing is left out."""
    return False


def dropout(key: int, share: float) -> LeftOut:
    """Leave out a share of the choices in the word with that key (64 bits)."""
    return lambda number: (mixed(key, number) >> 11) * 2.0**-53 < share


def mixed(key: int, number: int) -> int:
    """A key and a number as another key.

    >>> hex(mixed(1, 2))
    '0xd93ffe76a31a3f28'
    """
    bits = (key ^ number) * 0x9E3779B97F4A7C15 & _MASK
    bits = (bits ^ bits >> 32) * 0x6A09E667F3BCC909 & _MASK
    return bits ^ bits >> 29


def pairs_of(merges: Iterable[Sequence[Token]]) -> Pairs[Token]:
    """Merges (left, right, result) in rank order by pair; the first of equal pairs counts."""
    numbered = reversed(list(enumerate(merges)))
    return {(left, right): (rank, result) for rank, (left, right, result) in numbered}


def merge(
    symbols: Sequence[Token], pairs: Pairs[Token], is_left_out: LeftOut = nothing
) -> list[Token]:
    """Symbols merged: of all adjacent pairs the one of lowest rank, the leftmost first.

    A merge that is left out, when it would be the next one, waits until another has been applied,
    as in BPE-dropout (Provilkov et al. 2020, arXiv:1910.13267).

    >>> merge([1, 2, 1, 2], {(1, 2): (0, 3), (3, 3): (1, 4)})
    [4]
    """
    left, numbers = list(symbols), count()
    while True:
        found = [(*pairs[pair], at) for at, pair in enumerate(pairwise(left)) if pair in pairs]
        ordered = sorted(found, key=lambda one: (one[0], one[2]))
        best = next((one for one in ordered if not is_left_out(next(numbers))), None)
        if best is None:
            return left
        _, result, at = best
        left[at : at + 2] = [result]


def search(
    word: bytes,
    pieces: Mapping[bytes, tuple[int, float]],
    *,
    each: int,
    byte_ids: Sequence[int] = (),
    unknown: float = 0.0,
    fallback: bool = False,
    is_left_out: LeftOut = nothing,
) -> list[int]:
    """Ids of the path of the fewest `each` × tokens, of those the one with the greatest sum.

    Of equal paths that with the longer last piece wins. pieces: bytes → (id, score). With
    `fallback`, a character that is no piece may be spelled by `byte_ids`, with the score `unknown`.
    A word that cannot be spelled gives -1 for each byte. Pieces of one character, or less, are not
    left out.

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
            if index >= 0 and (stop <= whole or not is_left_out(start << 32 | stop))
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
