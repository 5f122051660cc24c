"""Differences between two tokenizers: tokens, merges, scores, languages of tokens."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from modtok_cli.modular.piece_vocabulary import PieceVocabulary
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer


@dataclass(frozen=True)
class Difference:
    """How tokenizer b differs from a; empty everywhere if it does not.

    Attributes:
        only_a, only_b: tokens that one has and the other lacks, in id order.
        merges_only_a, merges_only_b: likewise merges, as pairs of byte strings, by rank.
        rescored: how many tokens of both have another score.
        parts_at: first rank at which the lists of merges differ; None if they are equal.
        languages_only_a, languages_only_b: in training order.
        segmentations: that of a and that of b, if they are not the same.
        joined, left: language → tokens (in both) that b counts to it and a does not, and
            the other way round; only for modular tokenizers, over the languages of both.
    """

    only_a: tuple[bytes, ...] = ()
    only_b: tuple[bytes, ...] = ()
    merges_only_a: tuple[tuple[bytes, bytes], ...] = ()
    merges_only_b: tuple[tuple[bytes, bytes], ...] = ()
    parts_at: int | None = None
    languages_only_a: tuple[str, ...] = ()
    languages_only_b: tuple[str, ...] = ()
    segmentations: tuple[str, str] | None = None
    rescored: int = 0
    joined: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    left: dict[str, tuple[bytes, ...]] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """No difference at all."""
        return self == Difference()

    def lines(self, limit: int = 10) -> list[str]:
        """For people: one finding a line, with at most `limit` examples each."""
        if self.empty:
            return ["no difference"]
        found: list[str] = []
        if self.segmentations is not None:
            found.append("segmentation: {} → {}".format(*self.segmentations))
        for sign, names in (("-", self.languages_only_a), ("+", self.languages_only_b)):
            if names:
                found.append(f"{sign} languages: {', '.join(names)}")
        for sign, tokens in (("-", self.only_a), ("+", self.only_b)):
            if tokens:
                found.append(f"{sign} {len(tokens):,} tokens: {_examples(tokens, limit)}")
        for sign, pairs in (("-", self.merges_only_a), ("+", self.merges_only_b)):
            if pairs:
                shown = [f"{_show(left)} {_show(right)}" for left, right in pairs[:limit]]
                more = ", …" if len(pairs) > limit else ""
                found.append(f"{sign} {len(pairs):,} merges: {', '.join(shown)}{more}")
        if self.rescored:
            found.append(f"{self.rescored:,} tokens have another score")
        if self.parts_at is not None:
            found.append(f"the merges are the same up to rank {self.parts_at:,}")
        for sign, change in (("-", self.left), ("+", self.joined)):
            for language, tokens in change.items():
                count = f"{language}: {len(tokens):,} tokens"
                found.append(f"{sign} {count}: {_examples(tokens, limit)}")
        return found


def _show(token: bytes) -> str:
    """In quotes; a token that cuts characters by its bytes."""
    try:
        return repr(token.decode())
    except UnicodeDecodeError:
        return repr(token)[1:]


def _examples(tokens: Sequence[bytes], limit: int) -> str:
    more = ", …" if len(tokens) > limit else ""
    return ", ".join(map(_show, tokens[:limit])) + more


_Item = TypeVar("_Item", bound=Hashable)
Comparable = ModularTokenizer | Subtokenizer


def diff(a: Comparable, b: Comparable) -> Difference:
    """How `b` differs from `a`, by the bytes of tokens and not by their ids."""
    tokens_a, tokens_b = _tokens(a), _tokens(b)
    merges_a, merges_b = _merge_pairs(a, tokens_a), _merge_pairs(b, tokens_b)
    parts = next(
        (rank for rank, (x, y) in enumerate(zip(merges_a, merges_b, strict=False)) if x != y),
        None if len(merges_a) == len(merges_b) else min(len(merges_a), len(merges_b)),
    )
    joined: dict[str, tuple[bytes, ...]] = {}
    left: dict[str, tuple[bytes, ...]] = {}
    if isinstance(a, ModularTokenizer) and isinstance(b, ModularTokenizer):
        place = {token: index for index, token in enumerate(tokens_b)}
        both = [(i, place[token]) for i, token in enumerate(tokens_a) if token in place]
        rows_a, rows_b = np.array(both, dtype=np.int64).reshape(-1, 2).T
        for language in a.languages:
            if language not in b.languages:
                continue
            in_a = a.token_membership[rows_a, a.languages.index(language)]
            in_b = b.token_membership[rows_b, b.languages.index(language)]
            for change, moved in ((joined, in_b & ~in_a), (left, in_a & ~in_b)):
                if moved.any():
                    change[language] = tuple(tokens_a[i] for i in rows_a[moved])
    return Difference(
        only_a=_without(tokens_a, tokens_b),
        only_b=_without(tokens_b, tokens_a),
        merges_only_a=_without(merges_a, merges_b),
        merges_only_b=_without(merges_b, merges_a),
        parts_at=parts,
        rescored=_rescored(a, b, tokens_a, tokens_b),
        languages_only_a=_without(a.languages, b.languages),
        languages_only_b=_without(b.languages, a.languages),
        segmentations=None
        if a.segmentation == b.segmentation
        else (a.segmentation, b.segmentation),
        joined=joined,
        left=left,
    )


def _tokens(tokenizer: Comparable) -> list[bytes]:
    """A byte string for every token, each different: of Unigram the byte tokens' names."""
    if isinstance(tokenizer.vocabulary, PieceVocabulary):
        return [name.encode() for name in tokenizer.vocabulary.spellings()]
    return tokenizer.vocabulary.tokens()


def _rescored(a: Comparable, b: Comparable, tokens_a: list[bytes], tokens_b: list[bytes]) -> int:
    """Tokens of both whose scores differ; 0 unless both have scores.

    For two whole tokenizers of fewest tokens: the token counts of every language.
    """
    if (
        isinstance(a, ModularTokenizer)
        and isinstance(b, ModularTokenizer)
        and a.token_counts
        and b.token_counts
    ):
        changed: set[bytes] = set()
        for language in set(a.languages) & set(b.languages):
            in_b = dict(_token_counts(b, tokens_b, language))
            changed.update(
                t
                for t, token_counts in _token_counts(a, tokens_a, language)
                if in_b.get(t, token_counts) != token_counts
            )
        return len(changed)
    if a.scores is None or b.scores is None:
        return 0
    of_b = dict(zip(tokens_b, b.scores.tolist(), strict=True))
    pairs = zip(tokens_a, a.scores.tolist(), strict=True)
    return sum(of_b.get(token, score) != score for token, score in pairs)


def _token_counts(
    tokenizer: ModularTokenizer, tokens: list[bytes], language: str
) -> Iterator[tuple[bytes, int]]:
    """Every token of a language, and how often its text uses it."""
    column = tokenizer.languages.index(language)
    members = np.flatnonzero(tokenizer.token_membership[:, column]).tolist()
    return zip((tokens[i] for i in members), tokenizer.token_counts[column].tolist(), strict=True)


def _merge_pairs(tokenizer: Comparable, tokens: list[bytes]) -> list[tuple[bytes, bytes]]:
    return [(tokens[left], tokens[right]) for left, right, _ in tokenizer.merges.tolist()]


def _without(these: Sequence[_Item], those: Sequence[_Item]) -> tuple[_Item, ...]:
    there = set(those)
    return tuple(item for item in these if item not in there)
