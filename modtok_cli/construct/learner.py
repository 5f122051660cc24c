"""The interface of a construction: a learner with its settings.

A learner says how languages are learned. Counting, threads, journal, references, existing
outputs and appending are the same for all of them: `pipeline.construct`. A new construction
is one file with a `Learner` and a function that declares its settings and calls `construct`, and
one file with its command.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from modtok_cli.base.errors import UsageError
from modtok_cli.construct.learner_settings import LearnerSettings
from modtok_cli.construct.outputs import check_modular
from modtok_cli.construct.request import Destination, check_specials
from modtok_cli.construct.work import Work
from modtok_cli.learn.merges import LearnedMerges, check_budget
from modtok_cli.learn.pieces import LearnedPieces
from modtok_cli.tokenizer.manifest import Corpus
from modtok_cli.tokenizer.modular_directory import References
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer


class LearnedTokenizer(Protocol):
    """The output of a learner: a modular tokenizer, or plain files."""

    @property
    def signature(self) -> str:
        """Hash of the content."""

    def save(self, directory: Path, references: References) -> None:
        """Write all of it, or nothing."""


def left_out_of(corpus: Corpus | None) -> dict[str, int]:
    """Return the fields of a row about words that were left out of a corpus."""
    if corpus is None or corpus.left_out is None:
        return {}
    plain = ("min_count", "sample_weight", "certain_merges")
    return {
        key if key in plain else f"left_out_{key}": value
        for key, value in asdict(corpus.left_out).items()
        if value is not None
    }


class Learner(LearnerSettings, ABC):
    """One run of a construction. Subclasses implement `learn`, `result` and `rows`.

    Attributes:
        seconds: language → time that learning it took.
    """

    def __init__(self, k: int, specials: Sequence[str], settings: Mapping[str, Any]) -> None:
        super().__init__(k, specials, settings)
        self.seconds: dict[str, float] = {}

    def made(
        self, learned: LearnedMerges | LearnedPieces, work: Work, **others: Any
    ) -> ModularTokenizer:
        """Make the tokenizer; `others` as in `ModularTokenizer.from_learned`."""
        others = {"pretokenizer": self.pretokenizer, "settings": self.recorded(), **others}
        return ModularTokenizer.from_learned(
            learned,
            algorithm=self.algorithm,
            k=self.k,
            budgets={name: k for name, k in self.budgets.items() if k != self.k},
            corpora=work.words.corpora,
            **others,
        )

    def check(self) -> None:
        """Check budget and special tokens.

        Raises:
            UsageError: the budget is too small, or a special token could be learned.
        """
        for k in (self.k, *self.budgets.values()):
            check_budget(k, self.specials)
        check_specials(self.specials)

    def order(self, languages: Sequence[str], requested: Sequence[str] | None) -> list[str]:
        """Return the order in which to learn `languages`; `requested`: as the user listed them."""
        return list(languages)

    def check_output(
        self, destination: Destination, languages: Sequence[str]
    ) -> LearnedTokenizer | None:
        """Return the output that exists with the same settings; None to build it.

        Raises:
            UsageError: the output exists and differs, and `force` was not given.
        """
        return check_modular(destination, self, languages, ordered=False)

    def journal_key(self, everything: dict[str, Any]) -> dict[str, Any]:
        """Select from all that describes a build the part that a journal must agree with."""
        return everything

    def start(self, base: ModularTokenizer) -> None:
        """Continue from an existing tokenizer."""
        raise UsageError(f"{self.algorithm} cannot extend a tokenizer", where="--append")

    @abstractmethod
    def learn(self, work: Work) -> None:
        """Learn all of `work.languages`."""

    @abstractmethod
    def result(self, work: Work) -> LearnedTokenizer:
        """Return the learned tokenizer."""

    @abstractmethod
    def rows(self, output: Any) -> list[dict[str, Any]]:
        """Return a row of figures per language, from the output alone."""

    def without(self, base: ModularTokenizer, removed: Sequence[str]) -> ModularTokenizer:
        """Return `base` without some of its languages."""
        raise UsageError(f"{self.algorithm} cannot remove languages", where="--remove")
