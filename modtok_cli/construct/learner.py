"""The interface of a construction: a learner with its settings.

A learner says how languages are learned. Counting, threads, journal, references, existing
outputs and appending are the same for all of them: `pipeline.construct`. A new construction
is one file with a frozen dataclass of settings, a `Learner` and a function that calls
`construct`, and one file with its command.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from modtok_cli.base.errors import UsageError
from modtok_cli.construct.journal import INTERVAL_SECONDS, JournalState
from modtok_cli.construct.outputs import check_modular
from modtok_cli.construct.request import BuildReport, Request, check_specials
from modtok_cli.learn.merges import MAX_UNSPACED, check_budget
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.text.pretokenizer import BPE, PreTokenizer, find_pretokenizer

if TYPE_CHECKING:
    from modtok_cli.construct.reference_tasks import References
    from modtok_cli.construct.work import Work
    from modtok_cli.learn.merges import LearnedMerges
    from modtok_cli.learn.pieces import LearnedPieces

# Settings that the manifest has elsewhere, or not at all.
_UNRECORDED = frozenset({"segmentation", "pretokenizer", "models"})


class Output(Protocol):
    """What a learner makes: a modular tokenizer, or plain files."""

    @property
    def signature(self) -> str:
        """Hash of the content."""

    def save(self, directory: Path, references: References) -> None:
        """Write all of it, or nothing."""


class Learner(ABC):
    """One run of a construction. Subclasses implement `learn`, `result` and `rows`.

    Attributes:
        algorithm: name in the manifest.
        pretokenizer: splits text into the words that are counted; of the setting `pretokenizer`,
            if there is one.
        settings: values of the options of the construction that `Request` does not have.
        first_specials: special tokens that come before those of the user.
        optional: settings that are recorded only where they differ from this.
        journal_seconds: least time between two writes of the journal.
    """

    algorithm: ClassVar[str]
    pretokenizer: PreTokenizer = BPE
    first_specials: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar = {"min_count": None, "max_unspaced": MAX_UNSPACED}
    journal_seconds: ClassVar[float] = INTERVAL_SECONDS

    def __init__(self, k: int, specials: Sequence[str], settings: Mapping[str, Any]) -> None:
        self.k = k
        self.specials = tuple(specials)
        self.settings: Any = SimpleNamespace(**settings)
        if "pretokenizer" in settings:
            self.pretokenizer = find_pretokenizer(settings["pretokenizer"])

    @classmethod
    def settings_of(cls, base: ModularTokenizer) -> dict[str, Any]:
        """The settings that an existing tokenizer was learned with.

        Segmentation and pre-tokenizer are recorded outside of its settings.
        """
        elsewhere = {"segmentation": base.segmentation, "pretokenizer": base.pretokenizer.name}
        return {**cls.optional, **base.settings, **elsewhere}

    def recorded(self) -> dict[str, Any]:
        """Settings as the manifest records them."""
        settings = vars(self.settings)
        absent = {name for name, value in self.optional.items() if settings.get(name) == value}
        return {name: settings[name] for name in settings if name not in _UNRECORDED | absent}

    def made(
        self, learned: LearnedMerges | LearnedPieces, work: Work, **others: Any
    ) -> ModularTokenizer:
        """The tokenizer of what was learned; `others` as in `ModularTokenizer.from_learned`."""
        others = {"pretokenizer": self.pretokenizer, "settings": self.recorded(), **others}
        return ModularTokenizer.from_learned(
            learned, algorithm=self.algorithm, k=self.k, corpora=work.words.corpora, **others
        )

    @property
    def most_tokens(self) -> int:
        """Tokens that are learned from the words of a language, with those that are pruned."""
        return self.k

    @property
    def min_count(self) -> int:
        """Occurrences that a word needs to be learned from."""
        return getattr(self.settings, "min_count", None) or 1

    @property
    def max_unspaced(self) -> int:
        """Characters of scripts without spaces in a learned token, at most; 0: any number."""
        return int(getattr(self.settings, "max_unspaced", MAX_UNSPACED))

    @property
    def segmentation(self) -> str:
        """Segmentation of the tokenizer that is made."""
        return "merges"

    def check(self) -> None:
        """Check budget and special tokens.

        Raises:
            UsageError: the budget is too small, or a special token could be learned.
        """
        check_budget(self.k, self.specials)
        check_specials(self.specials)

    def order(self, languages: Sequence[str], requested: Sequence[str] | None) -> list[str]:
        """Order in which to learn `languages`; `requested`: as the user listed them."""
        return list(languages)

    def check_output(self, request: Request, languages: Sequence[str]) -> BuildReport | None:
        """The report of an output that exists with the same settings; None to build it.

        Raises:
            UsageError: the output exists and differs, and `force` was not given.
        """
        return check_modular(request, self, languages, ordered=False)

    def journal_key(self, everything: dict[str, Any]) -> dict[str, Any]:
        """Of all that describes this build, what a journal must agree with to be used."""
        return everything

    def workers(self, threads: int) -> int:
        """Number of threads of the pool."""
        return threads

    def start(self, base: ModularTokenizer) -> None:
        """Continue from an existing tokenizer."""
        raise UsageError(f"{self.algorithm} cannot extend a tokenizer", where="--append")

    def state(self) -> JournalState | None:
        """What the journal must keep to resume from here; None: nothing."""
        return None

    def restore(self, saved: JournalState) -> list[str]:
        """Continue from the state of an interrupted build; gives the languages that are done.

        Raises:
            ValueError, LookupError, TypeError, AttributeError, ModtokError: it is not one.
        """
        return []

    @abstractmethod
    def learn(self, work: Work) -> None:
        """Learn all of `work.languages`."""

    @abstractmethod
    def result(self, work: Work) -> Output:
        """What was learned."""

    @abstractmethod
    def rows(self, output: Any) -> list[dict[str, Any]]:
        """A row of figures per language."""

    def without(self, base: ModularTokenizer, removed: Sequence[str]) -> ModularTokenizer:
        """`base` without some of its languages."""
        raise UsageError(f"{self.algorithm} cannot remove languages", where="--remove")
