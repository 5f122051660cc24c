"""A monolingual vocabulary for fewest tokens: start with too many tokens, prune the least useful.

BPE proposes candidates (by default 1.25 k tokens). In rounds, the tokens are removed that cost
the fewest additional tokens on the text, until k remain. Then the most frequent pairs of
adjacent tokens are added as candidates, and as many tokens are removed again; this finds
tokens that BPE did not propose because it had merged their parts otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from modtok_cli.base.arrays import Int64Array, UInt64Array, flatten
from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.core.learn import removal_losses
from modtok_cli.core.segment import build_trie
from modtok_cli.learn.fewest_tokens import (
    NO_PIECE,
    estimate_token_counts,
    fewest_tokens,
    likelihoods,
)
from modtok_cli.learn.merges import MAX_UNSPACED, GlobalMerges, unspaced
from modtok_cli.text.counts import WordCounts, merge_counts
from modtok_cli.text.sequences import frequent_sequences

OVERTRAIN = 1.25
"""Number of BPE candidates, as a multiple of k."""

# More rounds, or smaller ones, change the fourth digit (benchmarks/results).
FIRST_ROUNDS = 4
LATER_ROUNDS = 3
SHARE = 0.6  # share of the tokens to remove in each round but the last
JOINS = 2
JOINED = 8  # k / 8 joins are candidates each time


@dataclass(frozen=True)
class LanguageTokens:
    """The tokens that one language contributes, and how often its text uses each of them.

    `tokens` ascend by length, then bytes, so their order is the same in every
    vocabulary. `token_counts` (k,) int64: special tokens (0), the 256 bytes, then `tokens`.
    """

    tokens: tuple[bytes, ...]
    token_counts: Int64Array


def choose_tokens(
    counts: WordCounts,
    wide: GlobalMerges,
    k: int,
    *,
    whole_characters: bool = False,
    max_unspaced: int = MAX_UNSPACED,
    label: str = "pruning",
    progress: Progress = SILENT,
) -> LanguageTokens:
    """The k tokens (special tokens and bytes included) that give the fewest tokens.

    Args:
        counts: the words of the language.
        wide: candidates: special tokens, the 256 bytes, then others.
        k: number of tokens to keep; fewer if there are fewer candidates.
        whole_characters: keep only tokens of whole characters, and with a token each of
            its characters, so that SentencePiece can express the vocabulary.
        max_unspaced: characters of scripts without spaces in a token, at most; 0: any number.
    """
    tokens, base, specials = wide.strings(), wide.base, len(wide.specials)
    chooser = _Chooser(counts, tokens[:base], specials, k, whole_characters, max_unspaced)
    with progress.task(label, total=1 + JOINS, unit="rounds") as task:
        pool = chooser.prune(tokens[base:], FIRST_ROUNDS)
        task.advance(1)
        for _ in range(JOINS):
            if len(tokens) > k:
                pool = chooser.prune(chooser.with_joins(pool), LATER_ROUNDS)
            task.advance(1)
    ordered = sorted(pool, key=lambda token: (len(token), token))
    return LanguageTokens(tuple(ordered), count_tokens(counts, tokens[:base] + ordered, specials))


def count_tokens(counts: WordCounts, tokens: list[bytes], specials: int) -> Int64Array:
    """Count of each token on a text; (V,) int64, see `estimate_token_counts`."""
    return estimate_token_counts(counts, _trie(tokens, specials), len(tokens))


def damped(counts: Int64Array) -> Int64Array:
    """⌊64 · count^(3/4)⌋: weight of a word when tokens are chosen.

    A token of many words is more useful on other text than a token of one word with the same
    count. With plain counts the tokens fit the training text better and other text worse.
    Computed by square roots only, so the result is the same on every machine.
    """
    plain = counts.astype(np.float64)
    return np.floor(64.0 * np.sqrt(plain * np.sqrt(plain))).astype(np.int64)


class _Chooser:
    """Chooses tokens besides `base`: special tokens, the 256 bytes, and others that are kept."""

    def __init__(
        self,
        counts: WordCounts,
        base: list[bytes],
        specials: int,
        k: int,
        whole: bool = False,
        max_unspaced: int = MAX_UNSPACED,
    ) -> None:
        self.counts = counts
        self.weights = damped(counts.counts)
        self.base = base
        self.specials = specials
        self.k = k
        self.whole = whole
        self.max_unspaced = max_unspaced

    def prune(self, pool: list[bytes], rounds: int) -> list[bytes]:
        """Tokens of `pool` to keep, so that all are at most k, in the same order."""
        if self.whole:
            pool = whole_tokens(pool)
        tokens = self.base + pool
        units = _trie(tokens, self.specials)
        active = np.ones(len(tokens), dtype=np.uint8)
        removable = np.ones(len(tokens), dtype=np.uint8)
        removable[: len(self.base)] = 0
        if self.whole:
            removable[[i for i, token in enumerate(tokens) if _single(token)]] = 0
            if len(tokens) - int(removable.sum()) > self.k:
                raise UsageError(
                    f"k = {self.k} is less than the {len(tokens) - int(removable.sum()):,} "
                    "bytes, special tokens and single characters of the text",
                    where="-k",
                    remedy="pass a larger k, or omit --whole-characters",
                )
        scores = np.zeros(len(tokens), dtype=np.float64)
        surplus = len(tokens) - self.k
        for left in range(rounds, 0, -1):
            if surplus <= 0:
                break
            losses, token_counts, _ = removal_losses(
                self.counts.data, self.counts.offsets, self.weights, units, scores, active,
                removable,
            )  # fmt: skip
            scores = likelihoods(token_counts).astype(np.float64)
            going = surplus if left == 1 else int(np.ceil(surplus * SHARE))
            candidates = np.flatnonzero(active & removable)
            # Of equal losses the rarer token is removed, then the later candidate.
            order = np.lexsort((-candidates, token_counts[candidates], losses[candidates]))
            active[candidates[order[:going]]] = 0
            surplus -= going
        rows = np.flatnonzero(active[len(self.base) :])
        return [pool[i] for i in rows.tolist()]

    def with_joins(self, pool: list[bytes]) -> list[bytes]:
        """`pool` and the k / 8 most frequent joins of two adjacent tokens."""
        tokens = self.base + pool
        units = _trie(tokens, self.specials)
        scores = likelihoods(estimate_token_counts(self.counts, units, len(tokens), rounds=2))
        ids, ends = fewest_tokens(units, scores).segment(
            self.counts.data, self.counts.offsets[:-1], self.counts.offsets[1:]
        )
        word = np.repeat(np.arange(len(self.counts)), np.diff(ends))
        left = np.flatnonzero(word[1:] == word[:-1])
        pairs = ids[left].astype(np.int64) << 32 | ids[left + 1]
        unique, which = np.unique(pairs, return_inverse=True)
        weights = np.zeros(len(unique), dtype=np.int64)
        np.add.at(weights, which, self.weights[word[left]])
        there = set(pool)
        joins: list[bytes] = []
        for pair in unique[np.argsort(-weights, kind="stable")].tolist():
            if len(joins) >= self.k // JOINED:
                break
            token = tokens[pair >> 32] + tokens[pair & 0xFFFFFFFF]
            fits = not self.max_unspaced or unspaced(token) <= self.max_unspaced
            if fits and token not in there:
                there.add(token)
                joins.append(token)
        return pool + joins


def _trie(tokens: list[bytes], specials: int) -> UInt64Array:
    data, offsets = flatten(tokens)
    return build_trie(data, offsets[specials:], np.arange(specials, len(tokens)))


def _single(token: bytes) -> bool:
    """Whether it is one whole character of two bytes or more."""
    return len(token) > 1 and is_whole(token) and len(token.decode()) == 1


def is_whole(token: bytes) -> bool:
    """Whether a token consists of whole characters."""
    try:
        token.decode()
    except UnicodeDecodeError:
        return False
    return True


def whole_tokens(tokens: list[bytes]) -> list[bytes]:
    """The tokens of whole characters, each of which is a token (or a byte) itself.

    None has what no piece of a SentencePiece .model can hold (`NO_PIECE`): bytes spell it.
    """
    whole = [token for token in tokens if is_whole(token) and not NO_PIECE & {*token.decode()}]
    single = {token for token in whole if _single(token)}
    return [
        token
        for token in whole
        if all(ord(char) < 128 or char.encode() in single for char in set(token.decode()))
    ]


SAMPLE = 1 << 23
"""Bytes of the text of a language from which superwords are chosen."""
CANDIDATES = 2
"""Number of sequences among which superwords are chosen, as a multiple of the most."""


def choose_with_superwords(
    words: WordCounts,
    groups: Sequence[WordCounts],
    wide: GlobalMerges,
    k: int,
    most: int,
    *,
    max_unspaced: int = MAX_UNSPACED,
    label: str = "pruning",
    progress: Progress = SILENT,
) -> LanguageTokens:
    """The k tokens (special tokens and bytes included), of which up to `most` are superwords.

    Args:
        words: the words of the language.
        groups: the phrases of each group of documents of a sample of its text.
        wide: candidates for the other tokens: special tokens, the 256 bytes, then others.
        k: number of tokens to keep; fewer if there are fewer candidates.
        most: greatest number of superwords.
        max_unspaced: as in `choose_tokens`, of the other tokens.
    """
    tokens, specials = wide.strings(), len(wide.specials)
    base = tokens[: wide.base]
    halves = _halves(groups)
    number = most
    for chosen_from, held_out in (halves, halves[::-1]):
        known = set(frequent_sequences(chosen_from, CANDIDATES * most))
        pool = [token for token in tokens[len(base) :] if token not in known]
        chooser = _Chooser(merge_counts(held_out), base, specials, k)
        pruned = chooser.prune([*pool, *sorted(known)], LATER_ROUNDS)
        number = min(number, sum(token in known for token in pruned))
    others = choose_tokens(
        words, wide, k - number, max_unspaced=max_unspaced, label=label, progress=progress
    ).tokens
    there = set(others)
    phrases = merge_counts(groups)
    sequences = [
        sequence
        for sequence in frequent_sequences(groups, CANDIDATES * most)
        if sequence not in there
    ]
    superwords = _Chooser(phrases, [*base, *others], specials, k).prune(sequences, LATER_ROUNDS)
    chosen = sorted([*others, *superwords], key=lambda token: (len(token), token))
    return LanguageTokens(tuple(chosen), count_tokens(phrases, base + chosen, specials))


def _halves(groups: Sequence[WordCounts]) -> tuple[list[WordCounts], list[WordCounts]]:
    """The groups in two parts of about the same size; one group is both."""
    if len(groups) == 1:
        return list(groups), list(groups)
    halves: tuple[list[WordCounts], list[WordCounts]] = ([], [])
    sizes = [0, 0]
    for group in sorted(groups, key=lambda group: -group.occurrences):
        smaller = int(sizes[1] < sizes[0])
        halves[smaller].append(group)
        sizes[smaller] += group.occurrences
    return halves
