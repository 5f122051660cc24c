"""The arguments of every construction, and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.text.counts import split_words
from modtok_cli.text.languages import language_list
from modtok_cli.text.reading import Reading
from modtok_cli.tokenizer.hf_directory import refuse_joined

# The end-of-text token separates documents in pretraining; padding fills batches.
DEFAULT_SPECIALS = ("<|endoftext|>", "<|pad|>")
DEFAULT_K = 24000


@dataclass(frozen=True)
class Request:
    """Text, output and resources of a construction: the options that learners share.

    `languages`: languages of `data` to learn, None for all; `k`: None for `DEFAULT_K`, or k of the
    tokenizer that is extended; `tokenizer`: the one that `append` and `remove` change, None for
    `output` in place; `journal_seconds`: least time between two writes of the journal, None for the
    learner's. The others are described where they are declared, in `base.parameters`.
    """

    output: Path
    languages: Sequence[str] | None = None
    data: Path = Path("data")
    k: int | None = None
    specials: Sequence[str] = ()
    default_specials: bool = True
    append: Sequence[str] | None = None
    remove: Sequence[str] | None = None
    tokenizer: Path | None = None
    references: bool = False
    reading: Reading = Reading()
    threads: int | None = None
    memory: str | int | None = None
    force: bool = False
    progress: Progress = SILENT
    journal_seconds: float | None = None

    @classmethod
    def of(cls, arguments: Mapping[str, Any], default: str = "tokenizer") -> Request:
        """Of the arguments of a public function; `default`: its output.

        With `tokenizer`, that is extended in place by default.

        Raises:
            UsageError: a list of languages with an empty entry or a repeated language.
        """
        values = {each.name: arguments[each.name] for each in fields(cls) if each.name in arguments}
        for name in ("languages", "append", "remove"):
            if values.get(name) is not None:
                flag = "--langs" if name == "languages" else f"--{name}"
                values[name] = language_list(values[name], flag)
        tokenizer = values.get("tokenizer")
        values["output"] = Path(values.get("output") or tokenizer or default)
        values["tokenizer"] = None if tokenizer is None else Path(tokenizer)
        values["data"] = Path(values["data"])
        return cls(**values)

    @property
    def source(self) -> Path:
        """Directory of the tokenizer to extend."""
        return self.tokenizer or self.output

    @property
    def is_in_place(self) -> bool:
        """Whether an existing tokenizer is replaced by its extension."""
        return self.source.resolve() == self.output.resolve()

    def special_tokens(self, first: Sequence[str] = ()) -> tuple[str, ...]:
        """Special tokens: `first`, the default ones, and the user's.

        >>> Request(Path("tokenizer"), specials=["<s>"]).special_tokens()
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
        """The rows, each with the path and the signature of the output."""
        return [
            {**line, "output": str(self.output), "signature": self.signature} for line in self.lines
        ]


def warn_of_small(lines: Sequence[Mapping[str, Any]], k: int, progress: Progress) -> None:
    """Warn about every language that has fewer than `k` tokens."""
    for line in lines:
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
