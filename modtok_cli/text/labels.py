"""Which of several labels a name means.

Scripts and regions count where they tell labels apart. A workspace with `zho_Hans.txt` and
`zho_Hant.txt` has the labels `zh-Hans` and `zh-Hant`; one with only one of them has `zh`. A name
finds a label that it does not contradict: `fra_Latn` and `fr-CA` find `fr`, `zho_Hant` finds
`zh-Hant`, and `zh` finds `zh-Hans` and `zh-Hant`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from modtok_cli.text.languages import canonical, normalize, subtags

Item = TypeVar("Item")


def shortened(labels: Iterable[str]) -> dict[str, str]:
    """The label in use for each of `labels`, which have script and region (`text.canonical`).

    It is the short code, unless there are several of a language and each has a script or region.

    >>> shortened(["fr-Latn", "zh-Hans", "zh-Hant"])
    {'fr-Latn': 'fr', 'zh-Hans': 'zh-Hans', 'zh-Hant': 'zh-Hant'}
    >>> shortened(["pt", "pt-BR"])  # text of "pt" may be Brazilian
    {'pt': 'pt', 'pt-BR': 'pt'}
    """
    of: dict[str, set[str]] = {}
    for label in labels:
        of.setdefault(normalize(label), set()).add(label)
    return {
        label: short if len(those) == 1 or short in those else label
        for short, those in of.items()
        for label in sorted(those)
    }


def matching(name: str, known: Sequence[str]) -> list[str]:
    """The labels of `known` that `name` means, in their order: itself, or those it fits.

    >>> known = ["fr", "sr-Cyrl", "sr-Latn", "code"]
    >>> [matching(name, known) for name in ("fra_Latn", "srp_Cyrl", "sr", "fi")]
    [['fr'], ['sr-Cyrl'], ['sr-Cyrl', 'sr-Latn'], []]
    """
    if name in known:
        return [name]
    label = canonical(name)
    return [label] if label in known else [each for each in known if fits(label, each)]


def by_label(items: Iterable[tuple[str, Item]]) -> dict[str, list[Item]]:
    """Items by the label in use, from items by labels in any spelling.

    >>> by_label([("fra_Latn", 1), ("zho_Hans", 2), ("zho_Hant", 3)])
    {'fr': [1], 'zh-Hans': [2], 'zh-Hant': [3]}
    """
    of = [(canonical(name), item) for name, item in items]
    short = shortened(name for name, _ in of)
    groups: dict[str, list[Item]] = {}
    for name, item in of:
        groups.setdefault(short[name], []).append(item)
    return groups


def the_one(name: str, known: Sequence[str]) -> str | None:
    """The label of `known` that `name` means; None if there are none or several.

    >>> the_one("fra_Latn", ["en", "fr"]), the_one("zh", ["zh-Hans", "zh-Hant"])
    ('fr', None)
    """
    labels = matching(name, known)
    return labels[0] if len(labels) == 1 else None


@lru_cache(1 << 16)
def fits(one: str, other: str) -> bool:
    """Whether two labels are of one language, and not of two scripts or regions.

    >>> fits("zh-Hant-TW", "zh-Hant"), fits("zh", "zh-Hans"), fits("zh-Hant", "zh-Hans")
    (True, True, False)
    """
    a, b = subtags(one), subtags(other)
    if a is None or b is None:
        return one == other
    (language, *kind, private), (other_language, *other_kind, other_private) = a, b
    return (language, private) == (other_language, other_private) and all(
        not x or not y or x == y for x, y in zip(kind, other_kind, strict=True)
    )


def target_of(pair: str) -> str:
    """The language that a pair translates into.

    >>> target_of("en-zh-Hant")
    'zh-Hant'
    """
    languages = split_pair(pair)
    return pair if languages is None else languages[1]


def split_pair(pair: str) -> tuple[str, str] | None:
    """The two labels of a pair of languages; None if it is not one.

    >>> split_pair("en-fr"), split_pair("zh-Hant-en"), split_pair("en-pt-BR"), split_pair("en")
    (('en', 'fr'), ('zh-Hant', 'en'), ('en', 'pt-BR'), None)
    """
    parts = pair.split("-")
    # The second language begins at the last part that can be one: scripts are longer, regions
    # have capitals.
    for at in range(len(parts) - 1, 0, -1):
        first, second = "-".join(parts[:at]).strip(), "-".join(parts[at:]).strip()
        start = parts[at].strip()
        capitals = start[:2].isupper() and len(parts) > 2
        # "en-fr-el" is three languages, not a region.
        plain = any(re.search("-[a-z]{2}(-|$)", name) for name in (first, second))
        if not (capitals or plain) and subtags(first) and subtags(second):
            return first, second
    return None
