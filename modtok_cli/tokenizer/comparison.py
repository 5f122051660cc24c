"""Every difference of two tokenizers, as rows and as text."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import ne
from typing import Any, Literal, TypeVar

import numpy as np

from modtok_cli.base.parameters import is_path
from modtok_cli.base.public import public
from modtok_cli.tokenizer.adopted.adopt import as_library
from modtok_cli.tokenizer.containment import containment
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_spec
from modtok_cli.tokenizer.parameters import AnyTokenizer
from modtok_cli.tokenizer.protocol import Tokenizer
from modtok_cli.tokenizer.subtokenizer import Subtokenizer
from modtok_cli.tokenizer.vocabulary import PieceVocabulary

SIDES = ("first", "second")


@dataclass(frozen=True)
class Comparison:
    """Relation of the second tokenizer to the first, and their differences.

    Attributes:
        relation: "equal"; "contains": the second contains the first, with the same ids;
            "contained"; or "different".
        reason: the relation in one sentence.
        difference: what only one of both has.
    """

    relation: Literal["equal", "contains", "contained", "different"]
    reason: str
    difference: Difference

    def lines(self) -> list[str]:
        """For people: the reason, then one finding a line."""
        found = self.difference.lines()
        if self.difference.empty and self.relation != "equal":
            found = []  # the reason says what is not listed, such as the languages of merges
        return [f"verdict: {self.reason}", *found]

    @property
    def verdict(self) -> dict[str, Any]:
        """The relation as a row."""
        return {"difference": "verdict", "relation": self.relation, "reason": self.reason}

    def rows(self) -> Iterator[dict[str, Any]]:
        """The relation, then one row for each difference, see `Difference.rows`."""
        yield self.verdict
        yield from self.difference.rows()


@public
def compare_tokenizers(first: AnyTokenizer, second: AnyTokenizer) -> Comparison:
    """Compare two tokenizers: every difference, and whether one contains the other.

    Both are modular tokenizers or subtokenizers, or name such ones.

    Returns:
        `relation` of the second to the first ("equal", "contains": models of the first can use the
        second; "contained", "different"), `reason` in a sentence, and `rows()`, one for each
        language, token, merge and membership that only one of both has, and for other differences.

    Examples:
        >>> modtok.compare_tokenizers("tokenizer@fi", "tokenizer@en,fi").relation
        'different'

    Raises:
        UsageError: a tokenizer does not exist.
        ModtokError: it is damaged, or of a kind whose merges or scores are unknown.
    """
    names = [
        str(each) if is_path(each) else name
        for each, name in ((first, "the first"), (second, "the second"))
    ]
    return compare(open_comparable(first), open_comparable(second), (names[0], names[1]))


def compare(a: Comparable, b: Comparable, names: tuple[str, str]) -> Comparison:
    """Compare `b`, the second tokenizer, with `a`; `names` stand for both in the reason."""
    difference = diff(a, b)
    first, second = names if names[0] != names[1] else ("the first", "the second")
    if not (isinstance(a, ModularTokenizer) and isinstance(b, ModularTokenizer)):
        if difference.empty and _alone(a).signature == _alone(b).signature:
            return Comparison("equal", f"{first} and {second} are equal", difference)
        what = f"{len(difference.only_a):,} tokens are only in the first"
        what += f", {len(difference.only_b):,} only in the second"
        if difference.empty:
            what = "they split or normalize text in another way"
        return Comparison("different", f"{first} and {second} differ: {what}", difference)
    if a.signature == b.signature:
        return Comparison("equal", f"{first} and {second} are equal", difference)
    forward = containment(b, a)
    if forward.holds:
        reason = f"{second} contains {first}: {forward}; runs of {first} can use it"
        return Comparison("contains", reason, difference)
    backward = containment(a, b)
    if backward.holds:
        reason = f"{first} contains {second}: {backward}; runs of {second} can use it"
        return Comparison("contained", reason, difference)
    return Comparison("different", f"{second} does not contain {first}: {forward}", difference)


def _alone(tokenizer: Comparable) -> Subtokenizer:
    return tokenizer.full() if isinstance(tokenizer, ModularTokenizer) else tokenizer


def open_comparable(tokenizer: str | os.PathLike[str] | Comparable | Tokenizer) -> Comparable:
    """A modular tokenizer, or a single one with known merges or scores; opened unless it is."""
    opened = open_spec(tokenizer)
    return opened if isinstance(opened, ModularTokenizer) else as_library(opened)


def text_of(token: bytes) -> str:
    """Bytes of a token as text; invalid UTF-8 as `\\xNN`."""
    return token.decode("utf-8", "backslashreplace")


@dataclass(frozen=True)
class Difference:
    """How tokenizer b differs from a; empty everywhere if it does not.

    Attributes:
        only_a, only_b: tokens that one has and the other lacks, in id order.
        merges_only_a, merges_only_b: likewise merges, as pairs of byte strings, by rank.
        rescored: how many tokens of both have another score.
        parts_at: first rank at which the lists of merges differ; None if they are equal.
        languages_only_a, languages_only_b: in training order.
        segmentations, pretokenizers: of a and of b, if they differ.
        renumbered: how many tokens have another id, if both have the same tokens.
        joined, left: language → tokens (in both) that b counts to it and a does not, and
            vice versa; only for modular tokenizers, over the languages of both.
    """

    only_a: tuple[bytes, ...] = ()
    only_b: tuple[bytes, ...] = ()
    merges_only_a: tuple[tuple[bytes, bytes], ...] = ()
    merges_only_b: tuple[tuple[bytes, bytes], ...] = ()
    parts_at: int | None = None
    languages_only_a: tuple[str, ...] = ()
    languages_only_b: tuple[str, ...] = ()
    segmentations: tuple[str, str] | None = None
    pretokenizers: tuple[str, str] | None = None
    renumbered: int = 0
    rescored: int = 0
    joined: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    left: dict[str, tuple[bytes, ...]] = field(default_factory=dict)

    @property
    def empty(self) -> bool:
        """No difference at all."""
        return self == Difference()

    def _one_sided(self) -> Iterator[tuple[str, int, Sequence[Any]]]:
        """The items that only one of both has: its kind, 0 or 1, and all items."""
        for kind, both in (
            ("language", (self.languages_only_a, self.languages_only_b)),
            ("token", (self.only_a, self.only_b)),
            ("merge", (self.merges_only_a, self.merges_only_b)),
        ):
            yield from ((kind, side, items) for side, items in enumerate(both) if items)

    def _names(self) -> Iterator[tuple[str, tuple[str, str]]]:
        """The items with different names."""
        if self.segmentations is not None:
            yield "segmentation", self.segmentations
        if self.pretokenizers is not None:
            yield "pre-tokenizer", self.pretokenizers

    def _memberships(self) -> Iterator[tuple[int, str, tuple[bytes, ...]]]:
        for side, change in enumerate((self.left, self.joined)):
            yield from ((side, language, tokens) for language, tokens in change.items())

    def rows(self) -> Iterator[dict[str, Any]]:
        """One row for each language, token, merge and membership that only one of both has.

        `only` is "first" or "second". Scores and the order of merges have a row each.
        """
        for kind, names in self._names():
            yield {"difference": kind, **dict(zip(SIDES, names, strict=True))}
        for kind, side, items in self._one_sided():
            for item in items:
                yield {"difference": kind, "only": SIDES[side], kind: _plain(item)}
        if self.renumbered:
            yield {"difference": "ids", "tokens": self.renumbered}
        if self.parts_at is not None:
            yield {"difference": "merges from rank", "rank": self.parts_at}
        if self.rescored:
            yield {"difference": "scores", "tokens": self.rescored}
        for side, language, tokens in self._memberships():
            row = {"difference": "membership", "only": SIDES[side], "language": language}
            yield from ({**row, "token": text_of(token)} for token in tokens)

    def lines(self, limit: int = 10) -> list[str]:
        """For people: one finding a line, with at most `limit` examples each."""
        if self.empty:
            return ["no difference"]
        lines = []
        lines += [f"{kind}: {names[0]} → {names[1]}" for kind, names in self._names()]
        for kind, side, items in self._one_sided():
            if kind == "language":
                lines.append(f"{'-+'[side]} languages: {', '.join(items)}")
            else:
                shown = _examples(items, limit)
                lines.append(f"{'-+'[side]} {len(items):,} {kind}s: {shown}")
        if self.renumbered:
            lines.append(f"{self.renumbered:,} tokens have another id")
        if self.rescored:
            lines.append(f"{self.rescored:,} tokens have another score")
        if self.parts_at is not None:
            lines.append(f"the merges are the same up to rank {self.parts_at:,}")
        for side, language, tokens in self._memberships():
            count = f"{language}: {len(tokens):,} tokens"
            lines.append(f"{'-+'[side]} {count}: {_examples(tokens, limit)}")
        return lines


def _plain(item: Any) -> str | list[str]:
    if isinstance(item, tuple):
        return list(map(text_of, item))
    return item if isinstance(item, str) else text_of(item)


def _show(item: bytes | tuple[bytes, bytes]) -> str:
    """In quotes; a token that cuts characters by its bytes; the parts of a merge."""
    if isinstance(item, tuple):
        return " ".join(map(_show, item))
    try:
        return repr(item.decode())
    except UnicodeDecodeError:
        return repr(item)[1:]


def _examples(items: Sequence[Any], limit: int) -> str:
    more = ", …" if len(items) > limit else ""
    return ", ".join(map(_show, items[:limit])) + more


_Item = TypeVar("_Item", bound=Hashable)
Comparable = ModularTokenizer | Subtokenizer


def diff(a: Comparable, b: Comparable) -> Difference:
    """How `b` differs from `a`, by the bytes of tokens; of the same tokens also by their ids."""
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
        segmentations=_different(a.segmentation, b.segmentation),
        pretokenizers=_different(a.pretokenizer.name, b.pretokenizer.name),
        renumbered=sum(map(ne, tokens_a, tokens_b)) if {*tokens_a} == {*tokens_b} else 0,
        joined=joined,
        left=left,
    )


def _different(one: str, other: str) -> tuple[str, str] | None:
    return None if one == other else (one, other)


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
    members = tokenizer.token_membership.ids(column).tolist()
    return zip((tokens[i] for i in members), tokenizer.token_counts[column].tolist(), strict=True)


def _merge_pairs(tokenizer: Comparable, tokens: list[bytes]) -> list[tuple[bytes, bytes]]:
    return [(tokens[left], tokens[right]) for left, right, _ in tokenizer.merges.tolist()]


def _without(these: Sequence[_Item], those: Sequence[_Item]) -> tuple[_Item, ...]:
    there = set(those)
    return tuple(item for item in these if item not in there)
