"""Which subtokenizer does a prompt take? That of its language, or a union if in doubt.

Each monolingual reference prices a text in bits (`measure.identify`); the shortest
description wins. Languages within `margin` bits of it may be the right one too: the
subtokenizer of all of them together covers the text whichever it is, for a few more rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from modtok_cli.base.errors import ModtokError
from modtok_cli.measure.identify import code_lengths
from modtok_cli.measure.references import Reference, References
from modtok_cli.modular.unicode import utf8

# Bits of doubt: see docs/results-inference.md for what other values cost.
MARGIN = 8.0
# A union of more is no longer small; the cheapest so many are taken.
MOST = 5


@dataclass(frozen=True)
class Route:
    """Languages chosen for a text.

    Attributes:
        languages: the cheapest first.
        lead: bits by which the first is cheaper than the next language.
    """

    languages: tuple[str, ...]
    lead: float

    @property
    def certain(self) -> bool:
        """Whether it is one language only."""
        return len(self.languages) == 1


def route(
    texts: Sequence[str],
    references: Mapping[str, Reference],
    *,
    margin: float = MARGIN,
    most: int = MOST,
) -> list[Route]:
    """Choose for each text.

    Example: at margin 8, "Der Mann" with German at 31 bits, Dutch at 36 and English at 52
    takes de,nl, with a lead of 5.
    """
    names = np.array(list(references))
    bits = code_lengths([utf8(text) for text in texts], references)
    routes = []
    for row in bits:
        order = np.argsort(row, kind="stable")
        chosen = [int(i) for i in order[:most] if row[i] - row[order[0]] <= margin]
        lead = float(row[order[1]] - row[order[0]]) if len(order) > 1 else float("inf")
        routes.append(Route(tuple(names[chosen].tolist()), lead))
    return routes


def routing_references(
    tokenizer: Path, languages: Sequence[str], directory: Path | None = None
) -> dict[str, Reference]:
    """The references of a tokenizer directory, of those languages that the model has.

    Raises:
        ModtokError: there are none.
    """
    references = References(directory or tokenizer / "references")
    found = {name: references[name] for name in references.languages if name in languages}
    if not found:
        raise ModtokError(
            "holds no reference of a language that the model has",
            where=str(references.directory),
            remedy="name the language with --langs",
        )
    return found
