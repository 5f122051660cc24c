"""How many tokens a text takes, and which: by its words where that is exact, else by its lines.

A tokenizer whose pre-tokenizer cuts the words of our counts never joins across them, so the
counts tell all. One that cuts otherwise, or joins words (a superword tokenizer), must see
the text itself; `Usage.basis` says which of the two it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from modtok_cli.base.errors import ModtokError
from modtok_cli.measure.texts import Text
from modtok_cli.modular.protocol import Tokenizer
from modtok_cli.modular.subtokenizer import Subtokenizer

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Usage:
    """Tokens of a text; `occurrences` (V,) int64, how often each occurs, if asked for."""

    tokens: int
    basis: Literal["words", "text"]
    occurrences: Ints | None = None


def usage(tokenizer: Tokenizer, text: Text, *, occurrences: bool = False) -> Usage:
    """Encode a text and count.

    Raises:
        ModtokError: only word counts are there, and the tokenizer needs the text.
    """
    counts = text.counts_for(tokenizer.scheme)
    if counts is not None:
        if not occurrences:
            return Usage(int(tokenizer.token_lengths(counts) @ counts.counts), "words")
        found = getattr(tokenizer, "token_occurrences", None)
        if found is not None:
            total: Ints = found(counts)
            return Usage(int(total.sum()), "words", total)
    if text.documents is None:
        raise ModtokError(
            f"tokenizer {tokenizer.name} does not cut the words of our counts",
            where=text.name,
            remedy="give the text itself, not its word counts",
        )
    batch = tokenizer.encode_batch([document.decode() for document in text.documents])
    if not occurrences:
        return Usage(sum(len(ids) for ids in batch), "text")
    ids = np.concatenate([np.asarray(ids, dtype=np.int64) for ids in batch])
    return Usage(len(ids), "text", np.bincount(ids, minlength=tokenizer.size))


def merge_only(tokenizer: Tokenizer, occurrences: Ints) -> int | None:
    """Tokens that a text never shows but needs: parts of tokens that it does show.

    With merges t+h → th, th+e → the and a text of "the" only, "th" is such a token: it
    takes a row of the model's matrices and is never trained. Bytes and special tokens do
    not count. None where a tokenizer has no merges, or does not tell them.
    """
    if not isinstance(tokenizer, Subtokenizer) or tokenizer.segmentation != "merges":
        return None
    merges = tokenizer.merges
    used = occurrences > 0
    needed = np.zeros(len(used), dtype=np.bool_)
    while True:
        # A token may be made by several merges, so one sweep backwards is not enough.
        parts = merges[(used | needed)[merges[:, 2]], :2].reshape(-1)
        if needed[parts].all():
            break
        needed[parts] = True
    needed[: len(tokenizer.vocabulary.specials) + 256] = False
    return int((needed & ~used).sum())


def specials_of(tokenizer: Tokenizer) -> int:
    """Number of special tokens, which no text uses; 0 where it is not known."""
    if isinstance(tokenizer, Subtokenizer):
        return len(tokenizer.vocabulary.specials)
    return 0


@dataclass(frozen=True)
class RoundTrip:
    """Of `lines` tried, how many did not come back as they were, and the first of them."""

    lines: int
    failed: int
    first: int | None


def round_trip(tokenizer: Tokenizer, text: Text, most: int = 200) -> RoundTrip:
    """Encode and decode up to `most` lines of a text, spread evenly over it.

    Our own tokenizers work on bytes and lose nothing; others may normalize, drop spaces or
    know no byte of a rare character. `first` is a line number from 1.
    """
    if text.documents is None or isinstance(tokenizer, Subtokenizer):
        return RoundTrip(0, 0, None)
    chosen = range(0, len(text.documents), max(1, -(-len(text.documents) // most)))
    lines = [text.documents[i].decode() for i in chosen]
    failed = [
        number
        for number, line, ids in zip(chosen, lines, tokenizer.encode_batch(lines), strict=True)
        if tokenizer.decode(ids) != line
    ]
    return RoundTrip(len(lines), len(failed), failed[0] + 1 if failed else None)
