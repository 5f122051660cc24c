"""A monolingual vocabulary with superwords: tokens that consist of several words.

Words and superwords compete for the k tokens on the phrases of a sample of the text: those are
removed that cost the fewest additional tokens. This tells how many superwords a language needs.
The other tokens are then learned from the words of the whole text as without superwords, where a
token of many words counts more than a token of one word with the same count (`prune.damped`):
a sample of phrases cannot tell these apart. Last, that number of superwords is chosen among the
candidates, given the other tokens.
"""

from __future__ import annotations

from itertools import pairwise

from modtok_cli.base.arrays import Int64Array, UInt8Array
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.learn.prune import (
    LATER_ROUNDS,
    LanguageTokens,
    choose_tokens,
    count_tokens,
    prune,
)
from modtok_cli.text.counts import WordCounts
from modtok_cli.text.sequences import frequent_sequences

SAMPLE = 1 << 23
"""Bytes of the text of a language from which superwords are chosen."""
CANDIDATES = 2
"""Number of sequences among which superwords are chosen, as a multiple of the most."""


def choose_with_superwords(
    words: WordCounts,
    phrases: WordCounts,
    data: UInt8Array,
    offsets: Int64Array,
    specials: int,
    k: int,
    most: int,
    *,
    label: str = "pruning",
    progress: Progress = SILENT,
) -> LanguageTokens:
    """The k tokens (special tokens and bytes included), of which up to `most` are superwords.

    Args:
        words: the words of the language.
        phrases: the phrases of a sample of its text.
        data, offsets: candidates for the other tokens: special tokens, the 256 bytes, then others.
        specials: number of special tokens, which come first.
        k: number of tokens to keep; fewer if there are fewer candidates.
        most: greatest number of superwords.
    """
    flat = data.tobytes()
    tokens = [flat[start:stop] for start, stop in pairwise(offsets.tolist())]
    base = tokens[: specials + 256]
    sequences = frequent_sequences(phrases, CANDIDATES * most)
    known = set(sequences)
    pool = [token for token in tokens[len(base) :] if token not in known]
    kept = prune(phrases, base, [*pool, *sequences], specials, k, rounds=LATER_ROUNDS)
    number = min(most, sum(token in known for token in kept))
    others = choose_tokens(
        words, data, offsets, specials, k - number, label=label, progress=progress
    ).tokens
    there = set(others)
    sequences = [sequence for sequence in sequences if sequence not in there]
    superwords = prune(phrases, [*base, *others], sequences, specials, k, rounds=LATER_ROUNDS)
    chosen = sorted([*others, *superwords], key=lambda token: (len(token), token))
    return LanguageTokens(tuple(chosen), count_tokens(phrases, base + chosen, specials))
