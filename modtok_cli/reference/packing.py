"""Training batches: what is drawn, and which tokens of which documents make a sequence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

Place = tuple[int, int]
"""Number of a document in its stream, and byte within it."""
Piece = tuple[int, bytes, bool]
"""First byte in the document, text, whether its tokens are in the loss."""


def pick(weights: Mapping[str, float], number: float) -> str:
    """The name in whose part of the sum of all weights the share `number` of it is.

    >>> [pick({"en": 1, "fi": 0, "fr": 3}, share) for share in (0.2, 0.25)]
    ['en', 'fr']
    """
    possible = {name: weight for name, weight in weights.items() if weight > 0}
    end, goal = 0.0, number * sum(possible.values())
    for name, weight in possible.items():
        end += weight
        if goal < end:
            return name
    return name


def draw(
    numbers: Sequence[float],
    weights: Mapping[str, float],
    sources: Mapping[str, Mapping[str, float]],
    regime: str,
    p: float,
    extra: int = 0,
) -> tuple[str, tuple[str, ...] | None, str]:
    """Language, languages of its subtokenizer (None for T) and source, from uniform numbers.

    One decides the language, one whether there are more, one each further language in proportion to
    the weights of those that are left, the last one the source.

    >>> draw([0.6, 0.1, 0.7, 0], {"de": 1, "en": 1, "fi": 1}, {}, "sub", 0.5, 1)
    ('en', ('en', 'fi'), '')
    """
    first, more, *rest, last = numbers
    language = pick(weights, first)
    source = pick(sources.get(language, {"": 1.0}), last)
    if regime == "joint" or (regime == "full" and more < p):
        return language, None, source
    chosen = [language]
    for number in rest if more < p else ():
        left = {name: w for name, w in weights.items() if name not in chosen and w > 0}
        chosen += [pick(left, number)] if left else []
    return language, tuple(sorted(chosen)), source


def parts(text: bytes, start: int, most: int) -> list[Piece]:
    """Text from `start` on: of more than `most` bytes, cut before the last space of a second half.

    >>> parts(b"one two three", 0, 9)
    [(0, b'one two', True), (7, b' three', True)]
    """
    found: list[Piece] = []
    while len(text) - start > most:
        stop = text.rfind(b" ", start + most // 2, start + most)
        if stop < 0:
            stop = start + most - 1
            while stop > start and text[stop] & 0xC0 == 0x80:
                stop -= 1
        found.append((start, text[start:stop], True))
        start = stop
    return [*found, (start, text[start:], True)]


def packed(
    pieces: Callable[[Place], Sequence[Piece]],
    encode: Callable[[Place, bytes], Iterable[tuple[int, int]]],
    is_plain: Callable[[int], bool],
    wanted: int,
    place: Place,
    end: int,
) -> tuple[list[int], list[bool], int, Place]:
    """`wanted` tokens from a place on: ids, which are in the loss, bytes of these, the place after.

    An end-of-text token follows each document; it is in the loss if the document is plain text. A
    place is between characters: what a batch has of one at its end is read again. An end-of-text
    token that is just missing is left out, since each batch begins after one.

    pieces: of a document from a place on. encode: id and bytes of each token.
    """
    found: list[tuple[int, bool, int]] = []
    while len(found) < wanted:
        number = place[0]
        for start, text, in_loss in pieces(place):
            used = 0
            for token, size in encode((number, start), text):
                if len(found) < wanted:
                    found.append((token, in_loss, min(size, len(text) - used)))
                    used += size
            place = (number, start + used)
            if len(found) == wanted:
                while used < len(text) and text[used] & 0xC0 == 0x80:
                    used -= 1
                place = (number, start + used)
                break
        if not any(text for _, text, _ in pieces(place)):
            found += [(end, is_plain(number), 0)] * (len(found) < wanted)
            place = (number + 1, 0)
    ids, marks, sizes = zip(*found, strict=True)
    return list(ids), list(marks), sum(s for s, m in zip(sizes, marks, strict=True) if m), place
