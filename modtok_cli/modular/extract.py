"""Extract the tokenizer of some languages from a modular one, as a file of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from modtok_cli.modular.open_subset import open_subset


def extract(directory: Path, languages: Iterable[str], *, suffix: str = ".json") -> bytes:
    """Content of a file with the tokenizer of a set of languages, in any order and spelling.

    `suffix` selects the format: ".model" for SentencePiece, by default `tokenizer.json`. The
    bytes depend only on the tokenizer and the set.

    Raises:
        UsageError: an unknown language (names those there are), none at all, or a format that
            cannot hold the tokenizer.
        ModtokError: the directory is damaged.
    """
    return open_subset(directory, languages).to_bytes(suffix)
