"""The arguments of every construction (a learner, its text, its output), and its report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import options_of
from modtok_cli.base.parameters import FilePath, Languages, optional_path
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.remote import path_of
from modtok_cli.construct.budgets import Budgets, parsed
from modtok_cli.construct.parameters import BuildOptions, ModularBpeOptions
from modtok_cli.text.counts import split_words
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.hf_directory import refuse_joined

# The end-of-text token separates documents in pretraining; padding fills batches.
DEFAULT_SPECIALS = ("<|endoftext|>", "<|pad|>")
DEFAULT_K = 24000


class TrainingText:
    """The text that a construction learns from, and the means to read it.

    Attributes:
        data: directory with the text of each language, or one file.
        languages: languages of `data` to learn; None for all.
        memory: limit of counting and learning; None for none.

    Raises:
        UsageError: a list of languages with an empty entry or a repeated language.
    """

    def __init__(
        self, languages: Languages | None, how: BuildOptions, memory: str | int | None = None
    ) -> None:
        self.languages = optional_languages(languages)
        self.data = path_of(how.get("data") or "data")
        self.reading = how.get("reading") or Reading()
        self.threads = how.get("threads")
        self.memory = memory
        self.progress = how.get("progress", SILENT)


class Destination:
    """The output of a construction: a new tokenizer, or an existing one with other languages.

    Attributes:
        path: directory that is written.
        force: whether an existing output is replaced.
        tokenizer: the tokenizer that `append` and `remove` change; None for `path` in place.
        references: whether monolingual references are learned.
        journal_seconds: least time between two writes of the journal; None for the learner's.

    Raises:
        UsageError: a list of languages with an empty entry or a repeated language.
    """

    def __init__(
        self,
        path: FilePath,
        force: bool | None,
        *,
        append: Languages | None = None,
        remove: Languages | None = None,
        tokenizer: FilePath | None = None,
        references: bool | None = None,
        journal_seconds: float | None = None,
    ) -> None:
        self.path = Path(path)
        self.force = bool(force)
        self.append = optional_languages(append, "--append")
        self.remove = optional_languages(remove, "--remove")
        self.tokenizer = optional_path(tokenizer)
        self.references = references is not False
        self.journal_seconds = journal_seconds

    @classmethod
    def of(
        cls,
        how: ModularBpeOptions,
        append: Languages | None = None,
        remove: Languages | None = None,
    ) -> Destination:
        """Return the destination of a modular tokenizer, by default the one that is extended."""
        tokenizer = how.get("tokenizer")
        return cls(
            how.get("output") or tokenizer or "tokenizer",
            how.get("force"),
            append=append,
            remove=remove,
            tokenizer=tokenizer,
            references=how.get("references"),
            journal_seconds=how.get("journal_seconds"),
        )

    @property
    def source(self) -> Path:
        """Directory of the tokenizer to extend."""
        return self.tokenizer or self.path

    @property
    def is_in_place(self) -> bool:
        """Whether an existing tokenizer is replaced by its extension."""
        return self.source.resolve() == self.path.resolve()


class LearnerOptions:
    """The settings of a learner as the user gave them; None: not given.

    Attributes:
        options: the options that declare them, by name.
        k, budgets: of all languages, and of those that have one of their own.
        fair, fair_share: parallel text that chooses budgets, and how far to go.
        values: all others but the special tokens, by name.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        how: BuildOptions,
        k: Budgets | None = None,
        *,
        fair: FilePath | None = None,
        fair_share: float | None = None,
        **values: Any,
    ) -> None:
        self.options = options_of(function)
        self.k, self.budgets = (None, dict[str, int]()) if k is None else parsed(k)
        self.fair = optional_path(fair)
        self.fair_share = fair_share
        self.specials = how.get("specials") or ()
        self.default_specials = how.get("default_specials") is not False
        of_words = ("min_count", "max_unspaced", "pretokenizer")
        self.values = values | {name: how.get(name) for name in of_words if name in self.options}

    def special_tokens(self, first: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the special tokens: `first`, the default ones, and the user's.

        >>> LearnerOptions(check_specials, {"specials": ["<s>"]}).special_tokens()
        ('<|endoftext|>', '<|pad|>', '<s>')
        """
        known = (*first, *(DEFAULT_SPECIALS if self.default_specials else ()))
        return (*known, *(text for text in self.specials if text not in known))


@dataclass
class BuildReport:
    """Where the output is stored, and a row of figures per language or tokenizer."""

    output: Path
    signature: str
    lines: list[dict[str, Any]] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows, each with the path and the signature of the output."""
        return [
            {**line, "output": str(self.output), "signature": self.signature} for line in self.lines
        ]


def warn_of_small(
    lines: Sequence[Mapping[str, Any]], k_of: Callable[[str], int], progress: Progress
) -> None:
    """Warn about every language that has fewer tokens than its budget."""
    for line in lines:
        k = k_of(line["language"])
        if line["tokens"] < k:
            progress.warn(
                f"{line['language']}: the text gives {line['tokens']:,} tokens, not {k:,}; "
                "the tokenizer was written with these"
            )


def check_specials(specials: Sequence[str]) -> None:
    """Check special tokens: distinct, not empty, and impossible to learn.

    No learned token crosses a word boundary, so a text that the pre-tokenizer splits into
    two words or more ("<|endoftext|>": "<|", "endoftext", "|>") is never learned.

    Raises:
        UsageError: a special token is empty, repeated, or a single word.
    """
    refuse_joined(specials)
    for special in specials:
        if not special or specials.count(special) > 1:
            raise UsageError(
                "special tokens must be distinct and not empty", where=f"--special '{special}'"
            )
        if len(split_words(special.encode())) < 2:
            raise UsageError(
                f"'{special}' is a single word and could be learned as an ordinary token",
                where="--special",
                remedy=f"surround it with punctuation, as in <|{special}|>",
            )
