"""Budgets by language in plain Python: the next token goes to the language with the most tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from modtok_cli.reference.sequential_bpe import Merge, bytes_of, segment


def tokens_at(words: Mapping[bytes, int], merges: Sequence[Merge], more: int) -> int:
    """Tokens of a text under the bytes and the first `more` tokens that merges make.

    >>> tokens_at({b"ab": 3}, [(b"a", b"b")], 0), tokens_at({b"ab": 3}, [(b"a", b"b")], 1)
    (6, 3)
    """
    made = list(dict.fromkeys(a + b for a, b in merges))[:more]
    within = [(a, b) for a, b in merges if a + b in made]
    return sum(n * len(segment(bytes_of(word), within)) for word, n in words.items())


def equal_budgets(tokens: Mapping[str, Sequence[int]], base: int, total: int) -> dict[str, int]:
    """Budgets of the sum `total`; `tokens` of a language at `base`, `base` + 1, … tokens."""
    budgets = dict.fromkeys(tokens, min(base + 1, total // len(tokens)))
    while sum(budgets.values()) < total:
        growing = [name for name in tokens if budgets[name] - base + 1 < len(tokens[name])]
        if not growing:
            break
        most = max(growing, key=lambda name: tokens[name][budgets[name] - base])
        budgets[most] += 1
    return budgets
