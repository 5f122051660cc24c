"""Which texts can be special tokens."""

from __future__ import annotations

from collections.abc import Sequence

from modtok_cli.base.errors import UsageError
from modtok_cli.text.counter import split_words


def check_specials(specials: Sequence[str]) -> None:
    """Refuse a special token that a learned token could come to equal.

    No learned token crosses a word boundary, so a text that the pre-tokenizer cuts into
    two words or more ("<|endoftext|>": "<|", "endoftext", "|>") can never be learned.

    Raises:
        UsageError: a special token that is a single word.
    """
    for special in specials:
        if len(split_words(special.encode())) < 2:
            raise UsageError(
                f"'{special}' is a single word and could be learned as an ordinary token",
                where="--special",
                remedy=f"write it with signs around it, as in <|{special}|>",
            )
