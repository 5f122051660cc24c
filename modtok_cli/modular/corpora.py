"""What the languages of a tokenizer were learned from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Corpus:
    """Text of a language: hash of its word counts, and its size."""

    fingerprint: str
    documents: int
    characters: int
    bytes: int
