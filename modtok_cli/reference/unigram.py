"""Unigram: Algorithm 1 of the paper.

The probability of a segmentation is the product of the probabilities of its pieces. The E-step
adds, for each word, the share of each segmentation to the expected counts of its pieces; the M-step
makes probabilities of them, p(v) = E[c(v)] / Σ E.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean

from modtok_cli.reference.sequential_bpe import byte_order


def forward_backward(
    words: Sequence[tuple[bytes, float]],
    pieces: dict[bytes, int],
    probabilities: Sequence[float],
    byte_ids: Sequence[int],
) -> tuple[list[float], float]:
    """Expected counts (V,) and log-likelihood of counted words, with dictionaries and lists.

    pieces: bytes → id; a character that is no piece is spelled by `byte_ids`.

    >>> forward_backward([(b"ab", 3)], {b"a": 0, b"b": 1, b"ab": 2}, [0.5, 0.5, 0.25], [])[0]
    [1.5, 1.5, 1.5]
    """
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


def united(models: Mapping[str, Mapping[bytes, float]]) -> dict[bytes, float]:
    """Log-probabilities of the pieces of several models, the first model's first.

    The probability is the mean over the models that have the piece.
    """
    probabilities: dict[bytes, list[float]] = {}
    for model in models.values():
        for piece, score in model.items():
            probabilities.setdefault(piece, []).append(math.exp(score))
    return {piece: math.log(fmean(each)) for piece, each in probabilities.items()}


def maximized(
    words: Sequence[tuple[bytes, float]],
    pieces: dict[bytes, int],
    specials: int,
    tolerance: float,
    iterations: int,
) -> tuple[list[float], list[float]]:
    """Expected counts after EM, and the likelihood before each step.

    All bytes and pieces begin as likely; the last step is the one in which the likelihood changes
    by less than `tolerance`, relatively.
    """
    byte_ids = [specials + byte_order().index(byte) for byte in range(256)]
    number = 256 + len(pieces)
    expected, likelihoods = [0.0] * specials + [1.0] * number, list[float]()
    while len(likelihoods) < iterations:
        probabilities = [each / sum(expected) for each in expected]
        expected, likelihood = forward_backward(words, pieces, probabilities, byte_ids)
        likelihoods.append(likelihood)
        if likelihoods[1:] and abs(likelihood / likelihoods[-2] - 1) < tolerance:
            break
    return expected, likelihoods
