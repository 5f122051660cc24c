"""Checks of special tokens."""

from __future__ import annotations

from collections.abc import Sequence

from modtok_cli.base.errors import UsageError
from modtok_cli.text.counter import split_words


def check_specials(specials: Sequence[str]) -> None:
    """Check special tokens: distinct, not empty, and impossible to learn.

    No learned token crosses a word boundary, so a text that the pre-tokenizer splits into
    two words or more ("<|endoftext|>": "<|", "endoftext", "|>") is never learned.

    Raises:
        UsageError: a special token is empty, repeated, or a single word.
    """
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
