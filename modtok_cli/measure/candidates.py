"""Tokenizers of a measurement: those named, and each language's subtokenizer for `DIR@each`."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeGuard

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.hub import name_of
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.text.languages import matching, the_one
from modtok_cli.text.pretokenizer import PreTokenizer, restore_pretokenizer
from modtok_cli.text.table_files import is_table
from modtok_cli.text.workspace import files_in
from modtok_cli.tokenizer.manifest import read_manifest
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.open import open_tokenizer
from modtok_cli.tokenizer.parameters import AnyTokenizers
from modtok_cli.tokenizer.protocol import Tokenizer

Spec = str | Tokenizer
"""A tokenizer to measure: what `tokenizer.open.open_tokenizer` takes, or an opened one."""

EACH = "each"
"""`DIR@each` stands for the subtokenizer of the text's language."""


@dataclass(frozen=True)
class Candidate:
    """A tokenizer to measure; `only` restricts it to texts in one language."""

    tokenizer: Tokenizer
    label: str
    only: str | None = None

    def fits(self, language: str) -> bool:
        """Return whether texts in a language are measured with it."""
        return self.only in (None, language)


def named(tokenizers: AnyTokenizers) -> list[Spec]:
    """Return a list: paths as text, a modular tokenizer with all its languages."""
    items: Sequence[Any] = tokenizers if isinstance(tokenizers, list | tuple) else [tokenizers]
    return [
        str(item)
        if isinstance(item, str | os.PathLike)
        else item.full()
        if hasattr(item, "full")
        else item
        for item in items
    ]


def is_each(spec: Spec) -> TypeGuard[str]:
    """Return whether a tokenizer argument is `DIR@each`."""
    return isinstance(spec, str) and spec.endswith("@" + EACH)


def open_named(specs: Iterable[Spec], progress: Progress = SILENT) -> list[Candidate]:
    """Return tokenizers for all texts, in the same order; `DIR@each` is skipped."""
    opened = (
        open_tokenizer(spec, progress=progress) if isinstance(spec, str) else spec
        for spec in specs
        if not is_each(spec)
    )
    return [Candidate(tokenizer, tokenizer.name) for tokenizer in opened]


def pretokenizers_of(candidates: Sequence[Candidate], specs: Iterable[Spec]) -> list[PreTokenizer]:
    """Return pre-tokenizers of these tokenizers, whose word counts are needed.

    That of `DIR@each` is read from its manifest before the languages are known.
    """
    of_each = (
        restore_pretokenizer(read_manifest(Path(spec.rpartition("@")[0])).pretokenizer)
        for spec in filter(is_each, specs)
    )
    named = (candidate.tokenizer.pretokenizer for candidate in candidates)
    return [each for each in (*named, *of_each) if each is not None]


def open_each(
    specs: Iterable[Spec], languages: Sequence[str], progress: Progress
) -> list[Candidate]:
    """Add the subtokenizers of every `DIR@each`; warn of languages without one."""
    candidates: list[Candidate] = []
    for spec in filter(is_each, specs):
        modular = ModularTokenizer.load(Path(spec.rpartition("@")[0]))
        missing = []
        for language in languages:
            if own := the_one(language, modular.languages):
                candidates.append(Candidate(modular.subset([own]), name_of(spec), language))
            elif several := matching(language, modular.languages):
                missing.append(f"{language} (name one with --lang: {' or '.join(several)})")
            else:
                missing.append(language)
        if missing:
            progress.warn(f"{spec}: no subtokenizer for {', '.join(missing)}")
    return candidates


def wants_documents(candidates: Sequence[Candidate], texts: Sequence[Path | str]) -> bool:
    """Return whether lines must be kept to compare their lengths."""
    files = [file for text in texts if text != "-" for file in files_in(text)]
    only_counts = bool(files) and all(is_table(file) for file in files)
    return not only_counts or any(
        candidate.tokenizer.pretokenizer is None for candidate in candidates
    )


def with_each(
    named: Sequence[Candidate],
    specs: Sequence[Spec],
    languages: Sequence[str],
    progress: Progress,
) -> list[Candidate]:
    """Return results of `open_named` and of `DIR@each`, in command-line order.

    Raises:
        ModtokError: there is no tokenizer: no `DIR@each` has any of the languages.
    """
    candidates = [*named, *open_each(specs, languages, progress)]
    if not candidates:
        raise ModtokError(
            "no tokenizer for any text",
            where=", ".join(map(_label, specs)),
            remedy=f"no tokenizer has {', '.join(languages)}; pass another with -t",
        )
    return in_order(candidates, specs)


def in_order(candidates: Sequence[Candidate], specs: Sequence[Spec]) -> list[Candidate]:
    """Return candidates in the order of their arguments on the command line."""
    place = {_label(spec): i for i, spec in reversed(list(enumerate(specs)))}
    piped = place.get("-", len(place))  # its label names its languages
    return sorted(candidates, key=lambda candidate: place.get(candidate.label, piped))


def _label(spec: Spec) -> str:
    return name_of(spec) if isinstance(spec, str) else spec.name
