"""Checks of special tokens."""

from __future__ import annotations

from collections.abc import Sequence

from modtok_cli.base.errors import UsageError
from modtok_cli.text.counter import split_words


def check_specials(specials: Sequence[str]) -> None:
    """Refuse special tokens that could also be learned.

    No learned token crosses a word boundary, so a text that the pre-tokenizer splits into
    two words or more ("<|endoftext|>": "<|", "endoftext", "|>") is never learned.

    Raises:
        UsageError: a special token is a single word.
    """
    for special in specials:
        if len(split_words(special.encode())) < 2:
            raise UsageError(
                f"'{special}' is a single word and could be learned as an ordinary token",
                where="--special",
                remedy=f"surround it with punctuation, as in <|{special}|>",
            )
