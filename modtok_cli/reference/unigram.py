"""Unigram: all segmentations of a word, and the E-step of Algorithm 1 of the paper.

The probability of a segmentation is the product of those of its pieces. The E-step adds, for each
word, the share of each segmentation to the expected counts of its pieces; the M-step makes
probabilities of them, p(v) = E[c(v)] / Σ E.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence


def characters(word: bytes) -> list[bytes]:
    """The characters of UTF-8 text, as bytes."""
    return [character.encode() for character in word.decode()]


def segmentations(
    word: bytes, pieces: dict[bytes, int], fallback: bool
) -> Iterator[list[tuple[bytes, bool]]]:
    """All ways to cut a word: (bytes, whether it is a character written in bytes)."""
    if not word:
        yield []
        return
    for stop in range(1, len(word) + 1):
        if word[:stop] in pieces:
            for rest in segmentations(word[stop:], pieces, fallback):
                yield [(word[:stop], False), *rest]
    if fallback and word[0] & 0xC0 != 0x80:
        first = characters(word)[0]
        if first not in pieces:
            for rest in segmentations(word[len(first) :], pieces, fallback):
                yield [(first, True), *rest]


def best(
    word: bytes,
    pieces: dict[bytes, int],
    scores: Sequence[float],
    byte_ids: Sequence[int],
    unknown: float,
    each: int,
    fallback: bool,
) -> list[int]:
    """The best way by the core's order, ties included: fewest, highest, longest from the end."""

    def key(way: list[tuple[bytes, bool]]) -> tuple[float, ...]:
        number = sum(each * (len(part) if spelled else 1) for part, spelled in way)
        # Summed from the left, as the core does, so that equal sums are equal floats.
        total = 0.0
        for part, spelled in way:
            total += unknown if spelled else scores[pieces[part]]
        return (number, -total, *(-len(part) for part, _ in reversed(way)))

    ways = list(segmentations(word, pieces, fallback))
    if not ways:
        return []
    ids: list[int] = []
    for part, spelled in min(ways, key=key):
        ids += [byte_ids[byte] for byte in part] if spelled else [pieces[part]]
    return ids


def expectation_by_enumeration(
    words: Sequence[tuple[bytes, float]],
    pieces: dict[bytes, int],
    probabilities: Sequence[float],
    byte_ids: Sequence[int],
) -> tuple[list[float], float]:
    """Expected counts and log-likelihood, by summing over every segmentation of every word."""
    expected = [0.0] * len(probabilities)
    likelihood = 0.0
    for word, count in words:
        ways = []
        for way in segmentations(word, pieces, True):
            ids: list[int] = []
            for part, spelled in way:
                ids += [byte_ids[byte] for byte in part] if spelled else [pieces[part]]
            ways.append((math.prod(probabilities[i] for i in ids), ids))
        total = math.fsum(weight for weight, _ in ways)
        likelihood += count * math.log(total)
        for weight, ids in ways:
            for i in ids:
                expected[i] += count * weight / total
    return expected, likelihood


def forward_backward(
    words: Sequence[tuple[bytes, float]],
    pieces: dict[bytes, int],
    probabilities: Sequence[float],
    byte_ids: Sequence[int],
) -> tuple[list[float], float]:
    """Algorithm 1's E-step as it is written, with dictionaries and lists."""
    expected = [0.0] * len(probabilities)
    likelihood = 0.0
    longest = max((len(piece) for piece in pieces), default=1)
    for word, count in words:
        n = len(word)
        edges: list[list[tuple[int, float, list[int]]]] = []
        for i in range(n):
            here: list[tuple[int, float, list[int]]] = []
            edges.append(here)
            lead = word[i]
            if lead & 0xC0 == 0x80:
                continue
            for j in range(i + 1, min(n, i + longest) + 1):
                piece = pieces.get(word[i:j])
                if piece is not None:
                    here.append((j, probabilities[piece], [piece]))
            width = 1 if lead < 0xC0 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
            if word[i : i + width] not in pieces:
                ids = [byte_ids[byte] for byte in word[i : i + width]]
                here.append((i + width, math.prod(probabilities[k] for k in ids), ids))
        forward = [1.0] + [0.0] * n
        for i in range(n):
            for j, p, _ in edges[i]:
                forward[j] += forward[i] * p
        backward = [0.0] * n + [1.0]
        for i in range(n - 1, -1, -1):
            for j, p, _ in edges[i]:
                backward[i] += p * backward[j]
        total = forward[n]
        likelihood += count * math.log(total)
        for i in range(n):
            for j, p, ids in edges[i]:
                share = count * forward[i] * p * backward[j] / total
                for k in ids:
                    expected[k] += share
    return expected, likelihood
