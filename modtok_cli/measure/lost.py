"""Text that tokenizers of other programs cannot write, and when its bits do not count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from modtok_cli.base.progress import Progress
from modtok_cli.measure.check import SOME_UNKNOWN
from modtok_cli.tokenizer.subtokenizer import Subtokenizer


@dataclass(frozen=True)
class Lost:
    """Unknown tokens and bytes that a tokenizer lost of some documents; of how many."""

    tokens: int
    bytes: int
    of_tokens: int
    of_bytes: int

    @property
    def is_much(self) -> bool:
        """Whether what was predicted is not the text: bits per byte would be too few."""
        return max(self.tokens / self.of_tokens, self.bytes / self.of_bytes) > SOME_UNKNOWN


def lost_of(
    tokenizer: Subtokenizer, text: str, documents: Sequence[str], progress: Progress
) -> Lost:
    """Return the losses of a tokenizer in documents of `text`; a warning says them."""
    losses, counts, tokens = tokenizer.losses, np.zeros(2, dtype=np.int64), 0
    if losses is not None:
        for document in documents:
            ids = tokenizer.encode(document)
            tokens += len(ids)
            counts += losses.of(document, ids)
    size = sum(len(document.encode()) for document in documents)
    lost = Lost(int(counts[0]), int(counts[1]), max(1, tokens), max(1, size))
    if lost.tokens or lost.bytes:
        what = f"{lost.tokens:,} unknown tokens stand for" if lost.tokens else "no token stands for"
        much = ": bits per byte would be too few and are left out" if lost.is_much else ""
        progress.warn(f"{text}: {what} {lost.bytes:,} of {lost.of_bytes:,} bytes{much}")
    return lost


def unmeasured(lost: Mapping[str, Lost]) -> frozenset[str]:
    """Return the languages of which much text is lost."""
    return frozenset(language for language, each in lost.items() if each.is_much)
