"""Identify the language of a text among the languages of a workspace, or find that it is another.

Each monolingual reference stores how often its tokens occur in its training text. A text costs -Σ
log2 p(token) bits under each of these unigram models; the language with the lowest cost is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from modtok_cli.measure.references import Reference
from modtok_cli.text.counts import WordCounts

UNLIKELY = 4.0
"""Bits per character from which a text is not in the language of a reference.

On NTREX-128, references of 24,000 tokens need 2.3 to 4.2 bits for a character of their own
language (25 of 27 below 4.0), and at least 4.15 for any other of the 27. Smaller references need
more, so that they refuse more texts of their language, not accept others.
"""


def code_lengths(
    texts: Sequence[bytes], references: Mapping[str, Reference]
) -> npt.NDArray[np.float64]:
    """Bits of each text under each reference; shape (texts, references).

    p(token) = (count + 1/2) / (Σ counts + V/2), so an unseen token has a finite cost.
    """
    bits = np.zeros((len(texts), len(references)))
    for column, reference in enumerate(references.values()):
        price = reference.prices
        for row, ids in enumerate(reference.tokenizer.encode_utf8(texts)):
            bits[row, column] = price[ids].sum()
        reference.tokenizer.forget_words()  # hundreds of references would fill gigabytes
    return bits


def identify(texts: Sequence[bytes], references: Mapping[str, Reference]) -> list[str]:
    """Language of each text; on a tie the first reference."""
    names = list(references)
    return [names[column] for column in code_lengths(texts, references).argmin(axis=1)]


def identify_whole(counts: WordCounts, references: Mapping[str, Reference]) -> str | None:
    """Language of a text by its word counts; None if it seems to be in none of the languages.

    References with the words of another pre-tokenizer, and those without token counts, are skipped.
    """
    bits = {
        name: float(reference.tokenizer.token_occurrences(counts) @ reference.prices)
        for name, reference in references.items()
        if reference.counts is not None and reference.tokenizer.pretokenizer is counts.pretokenizer
    }
    best = min(bits, key=bits.__getitem__, default=None)
    if best is None or bits[best] >= UNLIKELY * counts.size.characters:
        return None
    return best
