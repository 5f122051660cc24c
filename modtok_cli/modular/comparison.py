"""Two tokenizers compared: every difference, and whether models of one can use the other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from modtok_cli.base.errors import ModtokError
from modtok_cli.modular.containment import containment
from modtok_cli.modular.difference import Comparable, Difference, diff
from modtok_cli.modular.directory import is_modular
from modtok_cli.modular.open import open_tokenizer
from modtok_cli.modular.protocol import Tokenizer
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.modular.tokenizer import ModularTokenizer

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
        return [f"verdict: {self.reason}", *self.difference.lines()]

    @property
    def verdict(self) -> dict[str, Any]:
        """The relation as a row."""
        return {"difference": "verdict", "relation": self.relation, "reason": self.reason}

    def rows(self) -> Iterator[dict[str, Any]]:
        """The relation, then one row for each difference, see `difference_rows`."""
        yield self.verdict
        yield from difference_rows(self.difference)


def compare(a: Comparable, b: Comparable, names: tuple[str, str]) -> Comparison:
    """Compare `b`, the second tokenizer, with `a`; `names` are those of both in the reason."""
    difference = diff(a, b)
    first, second = names if names[0] != names[1] else ("the first", "the second")
    if difference.empty:
        return Comparison("equal", f"{first} and {second} are equal", difference)
    if not (isinstance(a, ModularTokenizer) and isinstance(b, ModularTokenizer)):
        counts = f"{len(difference.only_a):,} tokens are only in the first"
        counts += f", {len(difference.only_b):,} only in the second"
        return Comparison("different", f"{first} and {second} differ: {counts}", difference)
    forward = containment(b, a)
    if forward.holds:
        reason = f"{second} contains {first}: {forward}; runs of {first} can use it"
        return Comparison("contains", reason, difference)
    backward = containment(a, b)
    if backward.holds:
        reason = f"{first} contains {second}: {backward}; runs of {second} can use it"
        return Comparison("contained", reason, difference)
    return Comparison("different", f"{second} does not contain {first}: {forward}", difference)


def open_comparable(tokenizer: str | os.PathLike[str] | Comparable | Tokenizer) -> Comparable:
    """A modular tokenizer, or a single one with known merges or scores; opened unless it is.

    Raises:
        UsageError: it does not exist.
        ModtokError: a tokenizer of another kind.
    """
    if isinstance(tokenizer, str | os.PathLike):
        if is_modular(Path(tokenizer)):
            return ModularTokenizer.load(Path(tokenizer))
        tokenizer = open_tokenizer(str(tokenizer))
    if not isinstance(tokenizer, ModularTokenizer | Subtokenizer):
        raise ModtokError(
            "cannot check, search or compare this kind of tokenizer",
            where=tokenizer.name,
            remedy="expected a modular directory, DIR@fr,en or a byte-level BPE tokenizer.json",
        )
    return tokenizer


def difference_rows(difference: Difference) -> Iterator[dict[str, Any]]:
    """One row for each language, token, merge and membership that only one of both has.

    `only` is "first" or "second". Scores and the order of merges have a row each.
    """
    if difference.segmentations is not None:
        yield {
            "difference": "segmentation",
            **dict(zip(SIDES, difference.segmentations, strict=True)),
        }
    only_languages = (difference.languages_only_a, difference.languages_only_b)
    for side, languages in zip(SIDES, only_languages, strict=True):
        for language in languages:
            yield {"difference": "language", "only": side, "language": language}
    for side, tokens in zip(SIDES, (difference.only_a, difference.only_b), strict=True):
        for token in tokens:
            yield {"difference": "token", "only": side, "token": text_of(token)}
    only_merges = (difference.merges_only_a, difference.merges_only_b)
    for side, merges in zip(SIDES, only_merges, strict=True):
        for parts in merges:
            yield {"difference": "merge", "only": side, "merge": list(map(text_of, parts))}
    if difference.parts_at is not None:
        yield {"difference": "merges from rank", "rank": difference.parts_at}
    if difference.rescored:
        yield {"difference": "scores", "tokens": difference.rescored}
    for side, change in zip(SIDES, (difference.left, difference.joined), strict=True):
        for language, tokens in change.items():
            for token in tokens:
                text = text_of(token)
                yield {
                    "difference": "membership",
                    "only": side,
                    "language": language,
                    "token": text,
                }


def text_of(token: bytes) -> str:
    """Bytes of a token as text; invalid UTF-8 as `\\xNN`."""
    return token.decode("utf-8", "backslashreplace")
