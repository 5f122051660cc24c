"""Fewest tokens: the constants that make a sum of scores mean "fewest tokens, then likeliest".

A word is segmented into the fewest tokens of the vocabulary; of several segmentations with as many
tokens the most likely wins, by the counts of tokens in the text. Both fit into one score per token,
`likelihood - EACH`, so any Unigram search finds it. See docs/fewest-tokens.md for a proof
that rounding cannot change the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from modtok_cli.base.arrays import Float64Array, Int32Array, Int64Array, UInt64Array
from modtok_cli.core.segment import SegmenterHandle, likelihood_steps

if TYPE_CHECKING:
    from modtok_cli.text.counts import WordCounts


FEWEST_TOKENS = "fewest-tokens"
NO_PIECE = frozenset("\0▁")
"""What no piece of SentencePiece holds: its decoder makes a space of "▁", NUL ends a string."""

LEVELS = 1 << 10
"""Likelihoods are whole numbers, 0 to LEVELS - 1, in sixteenths of a bit."""

LONGEST_WORD = 1 << 20
"""Bytes of a word up to which a float64 sum orders as the pair (tokens, likelihood)."""

EACH = LEVELS * LONGEST_WORD
"""Cost of a token in a score: more than the sum of all likelihoods of a word."""

SPECIAL_SCORE = -2.0 * EACH * LONGEST_WORD
"""Worse than any segmentation of the text of a special token, so it is never chosen."""

SHORT_EACH = 1 << 17
SHORT_WORD = 1 << 7
"""The same for the 24 bits of a float32, SentencePiece's: words of up to 128 tokens."""

ROUNDS = 3


def likelihoods(token_counts: Int64Array) -> Int32Array:
    """⌊16 · log2(1 + 2 · token_counts)⌋: the log-probability of each token, up to a constant.

    The log-probabilities of a language set are log2((token_counts + ½) / total). Total and
    doubling are constant over segmentations with the same number of tokens, and only those are
    compared.

    Shapes: token_counts (V,) int64, 0 to 2^62 - 1. Gives (V,) int32, 0 to LEVELS - 1.

    >>> likelihoods(np.array([0, 1, 2, 1000])).tolist()
    [0, 25, 37, 175]
    """
    return likelihood_steps(np.ascontiguousarray(token_counts, dtype=np.int64))


def fewest_tokens(units: UInt64Array, likelihood: npt.NDArray[np.integer]) -> SegmenterHandle:
    """Segments into the fewest tokens of a trie, (U,) uint64, of those the likeliest; (V,) int."""
    scores = likelihood.astype(np.float64)
    return SegmenterHandle.by_search(units, scores, np.ones(len(scores), dtype=np.uint8), each=1)


def estimate_token_counts(
    counts: WordCounts, units: UInt64Array, tokens: int, *, rounds: int = ROUNDS
) -> Int64Array:
    """Count of each token when the counted words are segmented into fewest tokens.

    Token counts decide between segmentations of the same length, so this starts
    from equal likelihoods and is repeated `rounds` times.

    Shapes: units `segment.build_trie` of the tokens by id, every byte one of them. Gives (tokens,)
    int64.
    """
    token_counts = np.zeros(tokens, dtype=np.int64)
    for _ in range(rounds):
        ids, ends = fewest_tokens(units, likelihoods(token_counts)).segment(
            counts.data, counts.offsets[:-1], counts.offsets[1:]
        )
        token_counts[:] = 0
        np.add.at(token_counts, ids, np.repeat(counts.counts, np.diff(ends)))
    return token_counts


def file_scores(
    likelihood: npt.NDArray[np.integer], specials: int, *, each: int = EACH
) -> Float64Array:
    """The scores of a Unigram file that searches for the fewest tokens; (V,) float64."""
    scores: Float64Array = likelihood.astype(np.float64) - each
    scores[:specials] = SPECIAL_SCORE
    return scores


def likelihood_of_scores(scores: Float64Array, specials: int) -> Int32Array | None:
    """The likelihoods in scores of `file_scores`; None for other scores."""
    steps = scores[specials:] + EACH
    if (scores[:specials] != SPECIAL_SCORE).any():
        return None
    if (steps != np.floor(steps)).any() or (steps < 0).any() or (steps >= LEVELS).any():
        return None
    whole = np.zeros(len(scores), dtype=np.int32)
    whole[specials:] = steps
    return whole
