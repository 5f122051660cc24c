"""Monolingual references of a workspace: one tokenizer per language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.base.reading import read_bounded
from modtok_cli.measure.candidates import Spec
from modtok_cli.modular.json_frame import PROVENANCE
from modtok_cli.modular.open import open_tokenizer, split_spec
from modtok_cli.modular.subtokenizer import Subtokenizer


@dataclass(frozen=True)
class Reference:
    """A monolingual tokenizer and the counts of its tokens in its training text.

    Shapes: counts (V,) int64, or None if the file has none.
    """

    language: str
    path: Path
    tokenizer: Subtokenizer
    counts: npt.NDArray[np.int64] | None

    @cached_property
    def prices(self) -> npt.NDArray[np.float64]:
        """Bits per token, -log2 p; shape (V,)."""
        if self.counts is None:
            raise ModtokError(
                "the reference has no token counts and cannot be used to identify languages",
                where=str(self.path),
                remedy="pass the language with --lang",
            )
        total = self.counts.sum() + 0.5 * len(self.counts)
        return np.asarray(-np.log2((self.counts + 0.5) / total))


class References:
    """A directory of `<lang>.json` monolingual tokenizers, loaded on demand."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        if not directory.is_dir():
            raise ModtokError(
                "no monolingual references",
                where=str(directory),
                remedy="train them with 'modtok bpe-seq' (without --no-references) or "
                "'modtok bpe', or pass their directory with --references; "
                "'modtok check' needs none",
            )
        self._paths = {path.stem: path for path in sorted(directory.glob("*.json"))}
        self._read: dict[str, Reference] = {}

    def warn_of_missing(self, languages: Sequence[str], progress: Progress) -> None:
        """Say in one line which of these languages have no reference."""
        if missing := [name for name in languages if name not in self._paths]:
            its = "it" if len(missing) == 1 else "them"
            progress.warn(
                f"no reference for {', '.join(missing)} in {self.directory}: no NSL for {its}"
            )

    @property
    def languages(self) -> list[str]:
        """Languages with a reference, ascending."""
        return list(self._paths)

    def __getitem__(self, language: str) -> Reference:
        """Reference of a language.

        Raises:
            ModtokError: there is none, or its file is damaged.
        """
        if language not in self._paths:
            raise ModtokError(
                f"no reference for language '{language}'",
                where=str(self.directory),
                remedy=f"available: {', '.join(self._paths) or 'none'}; train it with "
                f"'modtok bpe --langs {language}' and add --references bpe",
            )
        if language not in self._read:
            self._read[language] = _read(language, self._paths[language])
        return self._read[language]

    def all(self) -> dict[str, Reference]:
        """All references by language."""
        return {language: self[language] for language in self._paths}


def _read(language: str, path: Path) -> Reference:
    tokenizer = open_tokenizer(str(path))
    if not isinstance(tokenizer, Subtokenizer):
        raise ModtokError(
            "not a tokenizer written by modtok, cannot be used as a reference", where=str(path)
        )
    counts = orjson.loads(read_bounded(path))["model"].get(PROVENANCE, {}).get("counts")
    if counts is not None and (
        not isinstance(counts, list)
        or len(counts) != tokenizer.size
        or not all(type(count) is int and count >= 0 for count in counts)
    ):
        raise ModtokError("model.modtok.counts is invalid", where=str(path))
    array = None if counts is None else np.array(counts, dtype=np.int64)
    return Reference(language, path, tokenizer, array)


def find_references(directory: Path | None, tokenizers: Sequence[Spec]) -> References:
    """References to measure against.

    `directory` if given; else `references/` of the first modular directory among `tokenizers`; else
    that of the workspace's `tokenizer/`.
    """
    if directory is not None:
        return References(directory)
    for spec in tokenizers:
        if not isinstance(spec, str):
            continue
        inside = Path(split_spec(spec)[0]) / "references"
        if spec != "-" and inside.is_dir():
            return References(inside)
    return References(Path("tokenizer") / "references")


def references_or_none(directory: Path | None, tokenizers: Sequence[Spec]) -> References | None:
    """References to measure against; None if none are given and none exist."""
    try:
        return find_references(directory, tokenizers)
    except ModtokError:
        if directory is not None:
            raise
        return None
