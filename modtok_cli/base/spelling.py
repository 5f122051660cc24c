"""Names that a misspelled one may mean."""

from collections.abc import Iterable


def near(word: str, names: Iterable[str]) -> list[str]:
    """At most three of `names` that a word may mean by its spelling, the nearest first.

    Either begins the other, or they differ by one typo in three to five letters, by two in
    longer words: a letter more, less or other, or two neighbours exchanged.

    >>> near("lang", ["lang_field", "langs", "k"]), near("untie", ["quiet"])
    (['langs', 'lang_field'], [])
    """
    if len(word) > 80:
        return []
    typos = {name: _typos(word, name) for name in sorted(names)}

    def is_near(name: str) -> bool:
        shorter, longer = sorted((word, name), key=len)
        begins = len(shorter) > 2 and longer.startswith(shorter)
        return begins or typos[name] <= min(2, len(longer) // 3)

    return sorted(filter(is_near, typos), key=lambda name: typos[name])[:3]


def _typos(a: str, b: str) -> int:
    """Fewest letters to add, remove, replace or exchange with a neighbour."""
    before: list[int] = []
    row = list(range(len(b) + 1))
    for i in range(1, len(a) + 1):
        older, before, row = before, row, [i]
        for j in range(1, len(b) + 1):
            same = a[i - 1] == b[j - 1]
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (not same)))
            if i > 1 and j > 1 and a[i - 2 : i] == b[j - 2 : j][::-1]:
                row[-1] = min(row[-1], older[j - 2] + 1)
    return row[-1]
