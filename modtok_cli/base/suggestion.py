"""Names that a misspelled one may mean."""

from collections.abc import Iterable
from difflib import get_close_matches


def near(word: str, names: Iterable[str]) -> list[str]:
    """At most three of `names` that a word may mean by its spelling, the nearest first.

    Two thirds of the letters are the same, or one begins the other. Codes of two letters and long
    texts mean themselves only.

    >>> near("lang", ["lang_field", "langs", "k"]), near("untie", ["quiet"])
    (['langs', 'lang_field'], [])
    """
    if not 2 < len(word) <= 80:
        return []
    known = sorted(names)
    close = get_close_matches(word, known, cutoff=0.66)
    begun = [
        name for name in known if len(name) > 2 and (name.startswith(word) or word.startswith(name))
    ]
    return list(dict.fromkeys([*close, *begun]))[:3]
