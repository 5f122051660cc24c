"""Pruning: which of many candidates are the tokens of a language, for the fewest tokens."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from modtok_cli.reference.encoding import search
from modtok_cli.reference.sequential_bpe import unspaced

Counts = Mapping[bytes, int]


def likelihood(count: int) -> int:
    """⌊16 · log2(1 + 2 · count)⌋, by whole numbers."""
    return ((1 + 2 * count) ** 16).bit_length() - 1


def damped(count: int) -> int:
    """⌊64 · count^(3/4)⌋."""
    return math.floor(64 * math.sqrt(count * math.sqrt(count)))


def cut(word: bytes, tokens: Sequence[bytes], scores: Mapping[bytes, int]) -> list[bytes]:
    """A word in the fewest tokens, of those the likeliest."""
    pieces = {token: (index, float(scores.get(token, 0))) for index, token in enumerate(tokens)}
    return [tokens[index] for index in search(word, pieces, each=1)]


def used(words: Counts, tokens: Sequence[bytes], rounds: int = 3) -> Counter[bytes]:
    """How often each token is used; the counts of a round are the likelihoods of the next one."""
    count: Counter[bytes] = Counter()
    for _ in range(rounds):
        scores = {token: likelihood(count[token]) for token in tokens}
        count = Counter()
        for word, number in words.items():
            for token in cut(word, tokens, scores):
                count[token] += number
    return count


def pruned(
    words: Counts, base: Sequence[bytes], pool: Sequence[bytes], most: int, rounds: int,
    fixed: frozenset[bytes] = frozenset(),
) -> list[bytes]:  # fmt: skip
    """The part of a pool to keep, so that it has at most `most` tokens beside `base`.

    A round removes 60% of what is too much, the last one the rest: tokens without which the text
    has the fewest additional tokens; of equal ones the rarer, then the later. `fixed` stay.
    """
    weights = {word: damped(count) for word, count in words.items()}
    kept, scores = list(pool), dict.fromkeys(pool, 0)
    for left in range(rounds, 0, -1):
        surplus = len(kept) - most
        if surplus <= 0:
            break
        tokens = [*base, *kept]
        cuts = {word: cut(word, tokens, scores) for word in words}
        count: Counter[bytes] = Counter()
        for word, parts in cuts.items():
            count.update({token: weights[word] * parts.count(token) for token in {*parts}})

        def loss(token: bytes, tokens: list[bytes] = tokens, cuts: Mapping = cuts) -> int:  # type: ignore[type-arg]
            rest = [other for other in tokens if other != token]
            return sum(
                weights[word] * (len(cut(word, rest, {})) - len(parts))
                for word, parts in cuts.items()
                if token in word
            )

        order = sorted(
            (token for token in kept if token not in fixed),
            key=lambda token: (loss(token), count[token], -kept.index(token)),
        )
        going = {*order[: surplus if left == 1 else math.ceil(surplus * 0.6)]}
        kept = [token for token in kept if token not in going]
        scores = {token: likelihood(count[token]) for token in tokens}
    return kept


def joins(words: Counts, base: Sequence[bytes], pool: Sequence[bytes], most: int, limit: int
          ) -> list[bytes]:  # fmt: skip
    """The most frequent joins of two adjacent tokens that are none; ties by the order of tokens."""
    tokens = [*base, *pool]
    count, pairs = used(words, tokens, 2), Counter[tuple[int, int]]()
    scores = {token: likelihood(count[token]) for token in tokens}
    for word, number in words.items():
        for left, right in pairwise(cut(word, tokens, scores)):
            pairs[tokens.index(left), tokens.index(right)] += damped(number)
    ordered = sorted(pairs, key=lambda pair: (-pairs[pair], pair))
    found = [tokens[left] + tokens[right] for left, right in ordered]
    short = [token for token in found if not limit or unspaced(token) <= limit]
    return [token for token in dict.fromkeys(short) if token not in pool][:most]


def chosen(
    words: Counts, base: Sequence[bytes], candidates: Sequence[bytes], most: int, joined: int,
    whole: bool = False, limit: int = 16,
) -> list[bytes]:  # fmt: skip
    """At most `most` tokens of a language beside `base`, by length and bytes.

    Candidates are pruned; twice, `joined` joins are added and the pool is pruned again. `whole`:
    only tokens of whole characters, of which each stays; without "▁" and NUL.
    """

    def possible(pool: Sequence[bytes]) -> list[bytes]:
        if not whole:
            return list(pool)
        texts = [text for text in pool if text.decode(errors="ignore").encode() == text]
        texts = [text for text in texts if not {"▁", "\0"} & {*text.decode()}]
        return [text for text in texts if all(
            ord(char) < 128 or char.encode() in texts for char in text.decode()
        )]  # fmt: skip

    def prune(pool: Sequence[bytes], rounds: int) -> list[bytes]:
        pool = possible(pool)
        single = [text for text in pool if whole and len(text) > 1 and len(text.decode()) == 1]
        return pruned(words, base, pool, most, rounds, frozenset(single))

    pool = prune(candidates, 4)
    for _ in range(2 if len(candidates) > most else 0):
        pool = prune([*pool, *joins(words, base, pool, joined, limit)], 3)
    return sorted(pool, key=lambda token: (len(token), token))


Sequences = Callable[[Sequence[Counts], int], list[bytes]]


def with_superwords(
    words: Counts, groups: Sequence[Counts], sequences: Sequences, base: Sequence[bytes],
    candidates: Sequence[bytes], most: int, superwords: int, joined: Callable[[int], int],
) -> list[bytes]:  # fmt: skip
    """As `chosen`, up to `superwords` of them sequences of words, from phrases of groups of text.

    Each half of the groups proposes sequences and the other half judges them, as candidates beside
    the others: as many as both halves keep are taken. `sequences`: the most useful ones.
    `joined`: see `chosen`, if so many tokens are superwords.
    """
    halves: tuple[list[Counts], list[Counts]] = ([], [])
    for group in sorted(groups, key=lambda group: -sum(group.values())):
        min(halves, key=lambda half: sum(sum(each.values()) for each in half)).append(group)
    number = superwords
    for given, judge in (halves, halves[::-1]) if groups[1:] else [(groups, groups)]:
        known = sequences(given, 2 * superwords)
        pool = [token for token in candidates if token not in known]
        kept = pruned(total(judge), base, [*pool, *sorted(known)], most, 3)
        number = min(number, sum(token in known for token in kept))
    others = chosen(words, base, candidates, most - number, joined(number))
    new = [each for each in sequences(groups, 2 * superwords) if each not in others]
    found = pruned(total(groups), [*base, *others], new, most - len(others), 3)
    return sorted([*others, *found], key=lambda token: (len(token), token))


def total(groups: Sequence[Counts]) -> Counter[bytes]:
    """Counts of all groups together."""
    return sum((Counter(group) for group in groups), Counter[bytes]())
