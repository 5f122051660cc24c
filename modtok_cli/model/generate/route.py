"""Choose the subtokenizer of a prompt by its language, or a union if in doubt.

Each monolingual reference gives a text a cost in bits (`measure.references`). The language with the
lowest cost is chosen, together with all within `MARGIN` bits: their union covers the text in any
case, for a few more rows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from modtok_cli.base.errors import ModtokError
from modtok_cli.measure.references import Reference, References, code_lengths
from modtok_cli.tokenizer.encoding.encoder import utf8

# In bits; docs/results-programs.md has what it covers.
MARGIN = 8.0
# Languages in a union at most: larger unions are not small.
MOST = 5


@dataclass(frozen=True)
class Route:
    """Languages chosen for a text.

    Attributes:
        languages: in order of cost, cheapest first.
        lead: bits between the first and the next language.
    """

    languages: tuple[str, ...]
    lead: float

    @property
    def certain(self) -> bool:
        """Whether one language was chosen."""
        return len(self.languages) == 1


def route(texts: Sequence[str], references: Mapping[str, Reference]) -> list[Route]:
    """The languages of each text.

    Example: "Der Mann" costs 31 bits in German, 36 in Dutch and 52 in English. With a margin of 8
    the route is de,nl with a lead of 5.
    """
    names = np.array(list(references))
    bits = code_lengths([utf8(text) for text in texts], references)
    routes = []
    for row in bits:
        order = np.argsort(row, kind="stable")
        chosen = [int(i) for i in order[:MOST] if row[i] - row[order[0]] <= MARGIN]
        lead = float(row[order[1]] - row[order[0]]) if len(order) > 1 else float("inf")
        routes.append(Route(tuple(names[chosen].tolist()), lead))
    return routes


def routing_references(
    tokenizer: Path, languages: Sequence[str], directory: Path | None = None
) -> dict[str, Reference]:
    """The references in a tokenizer directory for the languages of a model."""
    references = References(directory or tokenizer / "references")
    chosen = {name: references[name] for name in references.languages if name in languages}
    if not chosen:
        raise ModtokError(
            "has no reference for a language of the model",
            where=references.directory,
            remedy="choose the language with --langs",
        )
    return chosen
