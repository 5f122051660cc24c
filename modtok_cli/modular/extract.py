"""Cut the tokenizer of some languages out of a modular one, as a file of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from modtok_cli.modular.tokenizer import ModularTokenizer


def extract(directory: Path, languages: Iterable[str], *, as_model: bool = False) -> bytes:
    """The plain `tokenizer.json` of a set of languages, in any order and spelling of codes.

    `as_model`: a SentencePiece `.model` instead, of a Unigram tokenizer. The bytes depend on
    the tokenizer and the set alone.

    Raises:
        UsageError: an unknown language (names those there are), none at all, or a `.model`
            of a tokenizer by merges.
        ModtokError: the directory is damaged.
    """
    subset = ModularTokenizer.load(directory).subset(languages)
    return subset.to_model() if as_model else subset.to_json()
