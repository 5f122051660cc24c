"""The settings of a learner, and the state that it resumes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

from modtok_cli.construct.journal import INTERVAL_SECONDS, JournalState
from modtok_cli.learn.merges import MAX_UNSPACED
from modtok_cli.text.pretokenizer import BPE, PreTokenizer, find_pretokenizer
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer

# Settings that the manifest has elsewhere, or not at all.
_UNRECORDED = frozenset({"segmentation", "pretokenizer", "models"})


class LearnerSettings:
    """The settings of a learner, and the parts of them that a tokenizer and a journal record.

    Attributes:
        algorithm: name in the manifest.
        budgets: language → k, of languages with one of their own.
        is_fair: whether parallel text will choose the budgets.
        pretokenizer: splits text into the words that are counted; of the setting `pretokenizer`,
            if there is one.
        settings: values of the options of the construction, without k and special tokens.
        first_specials: special tokens that come before the user's.
        optional: settings that are recorded only where they differ from this.
        journal_seconds: least time between two writes of the journal.
    """

    algorithm: ClassVar[str]
    pretokenizer: PreTokenizer = BPE
    first_specials: ClassVar[tuple[str, ...]] = ()
    optional: ClassVar = {"min_count": None, "max_unspaced": MAX_UNSPACED, "fair": None}
    journal_seconds: ClassVar[float] = INTERVAL_SECONDS

    def __init__(self, k: int, specials: Sequence[str], settings: Mapping[str, Any]) -> None:
        self.k = k
        self.budgets: dict[str, int] = {}
        self.is_fair = False
        self.specials = tuple(specials)
        self.settings: Any = SimpleNamespace(**settings)
        if "pretokenizer" in settings:
            self.pretokenizer = find_pretokenizer(settings["pretokenizer"])

    @classmethod
    def settings_of(cls, base: ModularTokenizer) -> dict[str, Any]:
        """Return the settings that an existing tokenizer was learned with.

        Segmentation and pre-tokenizer are recorded outside of its settings.
        """
        elsewhere = {"segmentation": base.segmentation, "pretokenizer": base.pretokenizer.name}
        return {**cls.optional, **base.settings, **elsewhere}

    def recorded(self) -> dict[str, Any]:
        """Return settings as the manifest records them."""
        settings = vars(self.settings)
        absent = {name for name, value in self.optional.items() if settings.get(name) == value}
        return {name: settings[name] for name in settings if name not in _UNRECORDED | absent}

    def provenance(self) -> dict[str, Any]:
        """Return the record of its learner in a file of a plain tokenizer."""
        names = {"algorithm": self.algorithm, "pretokenizer": self.pretokenizer.name}
        return {**names, "specials": list(self.specials), **self.recorded()}

    def k_of(self, language: str) -> int:
        """The budget of a language."""
        return self.budgets.get(language, self.k)

    def most_tokens(self, language: str) -> int:
        """Tokens learned for a language, before pruning."""
        return self.k_of(language)

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

    def workers(self, threads: int) -> int:
        """Return the number of threads of the pool."""
        return threads

    def state(self) -> JournalState | None:
        """Return the state that the journal must keep to resume from here; None: nothing."""
        return None

    def restore(self, saved: JournalState) -> list[str]:
        """Continue from the state of an interrupted build; gives the languages that are done.

        Raises:
            ValueError, LookupError, TypeError, AttributeError, ModtokError: it is not one.
        """
        return []
