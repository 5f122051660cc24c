"""In which of a workspace's languages is a line written?

Each monolingual reference carries how often its tokens occur in its training text. A line
costs -Σ log2 p(token) bits under each of these models, and its language is where it costs
least: the shortest description. No model beside the references is needed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from modtok_cli.measure.references import Reference


def code_lengths(
    texts: Sequence[bytes], references: Mapping[str, Reference]
) -> npt.NDArray[np.float64]:
    """Bits that each text costs under each reference; shape (texts, references).

    p(token) = (count + 1/2) / (Σ counts + V/2), so that a token never seen has a price.
    """
    bits = np.zeros((len(texts), len(references)))
    for column, reference in enumerate(references.values()):
        price = reference.prices
        for row, ids in enumerate(reference.tokenizer.encode_utf8(texts)):
            bits[row, column] = price[ids].sum()
    return bits


def identify(texts: Sequence[bytes], references: Mapping[str, Reference]) -> list[str]:
    """The language of each text; an equal price goes to the first in the order given."""
    names = list(references)
    return [names[column] for column in code_lengths(texts, references).argmin(axis=1)]
