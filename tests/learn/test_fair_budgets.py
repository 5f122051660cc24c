"""Budgets of equal content, by their definition in `reference.fair_budgets`."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from modtok_cli.learn.fair_budgets import equal_budgets, token_curve
from modtok_cli.learn.sequential import learn_plain
from modtok_cli.reference import fair_budgets
from modtok_cli.text.counts import WordCounts

WORDS = st.dictionaries(st.text("abc", min_size=1, max_size=7).map(str.encode),
                        st.integers(1, 9), min_size=1, max_size=12)  # fmt: skip


@settings(max_examples=examples(100), deadline=None)
@given(WORDS, WORDS, st.integers(0, 20))
def test_tokens_at_every_size(learned: dict[bytes, int], text: dict[bytes, int], more: int) -> None:
    """Of a text that need not be what was learned from."""
    tables = [WordCounts.from_pairs(sorted(words.items()), "bpe") for words in (learned, text)]
    merges = learn_plain(tables[0], 258 + more, ("<a>", "<b>")).merges
    tokens = merges.strings()
    pairs = [(tokens[a], tokens[b]) for a, b, _ in merges.merges.tolist()]
    curve = token_curve(merges, tables[1])
    assert len(curve) == merges.tokens - 257
    if len({a + b for a, b in pairs}) == len(pairs):
        expected = [fair_budgets.tokens_at(text, pairs, size) for size in range(len(curve))]
        assert curve.tolist() == expected
    else:  # a token that several merges make; the ends are exact all the same
        assert curve[0] == fair_budgets.tokens_at(text, pairs, 0)
        assert curve[-1] == fair_budgets.tokens_at(text, pairs, len(curve))


CURVES = st.lists(st.integers(0, 30), min_size=2, max_size=12).map(
    lambda values: sorted(values, reverse=True)
)


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(CURVES, min_size=1, max_size=5), st.integers(0, 9), st.floats(0, 1))
def test_the_language_with_the_most_tokens_gets_the_next(
    values: list[list[int]], more: int, share: float
) -> None:
    base, total = 256, (256 + more) * len(values)
    tokens = {f"l{number}": each for number, each in enumerate(values)}
    curves = {name: np.array(each) for name, each in tokens.items()}
    fair = fair_budgets.equal_budgets(tokens, base, total)
    assert equal_budgets(curves, base, total) == fair
    assert equal_budgets(curves, base, total, 0.0) == dict.fromkeys(tokens, base + more)
    between = equal_budgets(curves, base, total, share)
    target = total + share * (sum(fair.values()) - total)
    assert abs(sum(between.values()) - target) <= 0.5 + 1e-6
    for name, budget in between.items():
        assert abs(budget - (base + more + share * (fair[name] - base - more))) < 1 + 1e-6
