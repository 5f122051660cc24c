"""Identify the language of a text among the languages of a workspace.

Each monolingual reference stores how often its tokens occur in its training text. A text costs -Σ
log2 p(token) bits under each of these unigram models; the language with the lowest cost is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from modtok_cli.measure.references import Reference


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
    return bits


def identify(texts: Sequence[bytes], references: Mapping[str, Reference]) -> list[str]:
    """Language of each text; on a tie the first reference."""
    names = list(references)
    return [names[column] for column in code_lengths(texts, references).argmin(axis=1)]
