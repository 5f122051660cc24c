"""The order of a vocabulary for drafts, and how much of a text its first tokens cover."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from modtok_cli.base.arrays import Int32Array, Int64Array
from modtok_cli.base.errors import UsageError
from modtok_cli.model.draft.draft_vocabulary import Counts, DraftVocabulary
from modtok_cli.training.data.sampling import Mixture

SMALLEST = 4096
"""The first of the sizes that are compared, in vocabularies of more than twice as many tokens."""
_BLOCK = 1 << 24  # entries of the matrix that is timed


class TokenList(list[int]):
    """Ids of tokens; `coverage`: share of the tokens of each language's text that they are."""

    coverage: Mapping[str, float] = {}


@dataclass(frozen=True)
class Ranking:
    """All tokens of a vocabulary in one order; a list of n tokens is the first n.

    Bytes, special tokens and tokens of the chat template come first, in order of ids; then the
    tokens of the text, those with the greatest weighted share first, ties in order of ids; then
    all others, in order of ids.

    Attributes:
        order: (tokens,) int32.
        needed: number of tokens of the first kind.
        used: number of tokens of the first two kinds.
    """

    order: Int32Array
    needed: int
    used: int

    @staticmethod
    def of(
        vocabulary: DraftVocabulary, counts: Counts, mix: Mapping[str, float] | None = None
    ) -> Ranking:
        """By the share of each token in the text of each language.

        `mix`: weights of some languages; the others share the rest equally.
        """
        mixture = Mixture.of(dict.fromkeys(counts, 1), mix or {}, "uniform")
        score = np.zeros(len(vocabulary.tokens))
        for name, weight in mixture.as_dict().items():
            score += weight * (counts[name] / counts[name].sum())
        ids = np.arange(len(score))
        order = np.lexsort((ids, np.where(vocabulary.needed, 0, -score), ~vocabulary.needed))
        order = order[vocabulary.tokens[order]]
        return Ranking(
            order.astype(np.int32),
            needed=int(vocabulary.needed.sum()),
            used=int(((score > 0) | vocabulary.needed)[order].sum()),
        )

    def first(self, size: int) -> Int32Array:
        """The list of `size` tokens.

        Raises:
            UsageError: it has no room for the needed ones, or there are not so many tokens.
        """
        if size < self.needed:
            raise UsageError(
                f"{size:,} tokens are too few: {self.needed:,} must be in (bytes, special tokens, "
                "and what --must-have lists)",
                where="--size",
                remedy=f"choose at least {self.needed:,}",
            )
        if size > len(self.order):
            raise UsageError(
                f"the vocabulary has {len(self.order):,} tokens, cannot list {size:,}",
                where="--size",
                remedy=f"choose at most {len(self.order):,}, with --multiple N a multiple of N",
            )
        return self.order[:size]

    def listed(self, size: int, counts: Counts) -> TokenList:
        """`first` as a list, with its coverage of the text that was counted."""
        ids = TokenList(map(int, self.first(size)))
        ids.coverage = {name: self.coverage(each, [size])[0] for name, each in counts.items()}
        return ids

    def coverage(self, counts: Int64Array, sizes: Sequence[int]) -> list[float]:
        """The share of the tokens of a text, counts (V,), that the list of each size has."""
        covered = np.cumsum(counts[self.order])
        return [float(covered[size - 1] / counts.sum()) for size in sizes]

    def sizes(self) -> list[int]:
        """Sizes to compare: powers of two, and all tokens."""
        total = len(self.order)
        least = max(self.needed, SMALLEST if total > 2 * SMALLEST else 2)
        powers = (1 << exponent for exponent in range(1, total.bit_length()))
        return [*(size for size in powers if least <= size < total), total]


def coverage_rows(
    vocabulary: DraftVocabulary,
    ranking: Ranking,
    held: Counts,
    sizes: Sequence[int] | None = None,
) -> list[dict[str, Any]]:
    """A row for each language and size: the share of held-out tokens that the list has.

    By default sizes are powers of two, and all tokens.

    With a model's directory also `bytes`, of a head of these rows in 16 bits, and `milliseconds`,
    of its product with the hidden state of one token on this machine, in float32.
    """
    sizes = sizes or ranking.sizes()
    costs: list[dict[str, Any]] = [{} for _ in sizes]
    if vocabulary.width is not None:
        second = _seconds_per_row(vocabulary.width)
        costs = [{"bytes": 2 * size * vocabulary.width, "milliseconds": 1000 * size * second}
                 for size in sizes]  # fmt: skip
    return [
        {
            "model": vocabulary.name,
            "language": name,
            "draft_rows": size,
            "coverage": share,
            "tokens": int(counts.sum()),
            **cost,
        }
        for name, counts in held.items()
        for size, share, cost in zip(sizes, ranking.coverage(counts, sizes), costs, strict=True)
    ]


def _seconds_per_row(width: int) -> float:
    """Time of a row of a head, from a product that does not fit into caches; the best of five."""
    rows = max(1, _BLOCK // width)
    head, state = np.ones((rows, width), dtype=np.float32), np.ones(width, dtype=np.float32)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        head @ state
        times.append(time.perf_counter() - start)
    return min(times) / rows
