"""Fewest tokens: constants that no rounding turns round, and the tokens that are kept."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.core.learn import removal_losses
from modtok_cli.core.segment import SegmenterHandle, trie_of
from modtok_cli.learn.fewest_tokens import (
    EACH,
    LEVELS,
    LONGEST_WORD,
    SHORT_EACH,
    SHORT_WORD,
    SPECIAL_SCORE,
    file_scores,
    likelihood_of_scores,
    likelihoods,
)
from modtok_cli.reference.fewest_tokens import least
from modtok_cli.text.counts import WordCounts

two_letters = st.text("ab", min_size=1, max_size=8).map(str.encode)


def search(words: list[bytes], tokens: list[bytes], scores: np.ndarray, each: int) -> list[list]:
    counts = WordCounts.from_pairs([(word, 1) for word in words])
    active = np.ones(len(tokens), dtype=np.uint8)
    places = counts.offsets[:-1], counts.offsets[1:]
    segmenter = SegmenterHandle.by_search(
        trie_of(tokens), scores.astype(np.float64), active, each=each
    )
    ids, ends = segmenter.segment(counts.data, *places)
    cut = [ids[a:b].tolist() for a, b in pairwise(ends.tolist())]
    by_word = dict(zip(counts.words(), cut, strict=True))
    return [by_word[word] for word in words]


def test_the_constants_of_the_proof() -> None:
    # docs/fewest-tokens.md: likelihoods of a word never outweigh a token, and all sums are exact.
    assert LONGEST_WORD * (LEVELS - 1) < EACH
    assert LONGEST_WORD * EACH < -SPECIAL_SCORE
    assert -SPECIAL_SCORE + LONGEST_WORD * EACH < 2**53
    assert SHORT_WORD * (LEVELS - 1) < SHORT_EACH
    assert SHORT_WORD * SHORT_EACH <= 2**24
    assert (file_scores(np.array([5, 7]), 1) == [SPECIAL_SCORE, 7 - EACH]).all()


@given(st.lists(st.one_of(st.integers(0, 2**62 - 1), st.integers(0, 5000)), min_size=1))
def test_likelihoods_are_exact(token_counts: list[int]) -> None:
    for use, steps in zip(token_counts, likelihoods(np.array(token_counts)).tolist(), strict=True):
        assert 0 <= steps < LEVELS
        # A float64 holds 1 + 2 · token_counts exactly up to 2^53, and to 53 bits beyond.
        doubled = int(float(2.0 * use + 1.0))
        assert 2**steps <= doubled**16 < 2 ** (steps + 1)


@given(st.lists(st.integers(0, LEVELS - 1), max_size=9), st.integers(0, 3))
def test_scores_give_their_likelihoods(steps: list[int], specials: int) -> None:
    steps = [0] * specials + steps
    scores = file_scores(np.array(steps, dtype=np.int64), specials)
    found = likelihood_of_scores(scores, specials)
    assert found is not None
    assert found.tolist() == steps
    if len(steps) > specials:
        assert likelihood_of_scores(scores + 0.5, specials) is None
        assert likelihood_of_scores(scores + LEVELS, specials) is None


@settings(max_examples=150, deadline=None)
@given(st.lists(two_letters, unique=True, max_size=9), st.lists(two_letters, min_size=1), st.data())
def test_one_score_decides_like_the_pair(
    longer: list[bytes], words: list[bytes], data: st.DataObject
) -> None:
    """Every way of cutting, the two-number kernel, and one float64 sum: all the same."""
    tokens = list(dict.fromkeys([b"a", b"b", *longer]))
    extreme = st.sampled_from([0, 1, 2, LEVELS - 2, LEVELS - 1])
    steps = [data.draw(extreme) for _ in tokens]
    likelihood = dict(zip(tokens, steps, strict=True))
    two = search(words, tokens, np.array(steps, dtype=np.float64), 1)
    one = search(words, tokens, file_scores(np.array(steps), 0), 0)
    short = search(words, tokens, file_scores(np.array(steps), 0, each=SHORT_EACH), 0)
    for word, a, b, c in zip(words, two, one, short, strict=True):
        assert [tokens[i] for i in a] == least(word, likelihood)
        assert a == b == c


def test_the_longest_word_and_the_worst_likelihoods() -> None:
    # Each "aa" is as unlikely, each "a" as likely as can be, and still "aa" is taken.
    steps = np.array([LEVELS - 1, 0])
    for word in (b"a" * LONGEST_WORD, b"a" * (LONGEST_WORD - 1)):
        (one,) = search([word], [b"a", b"aa"], file_scores(steps, 0), 0)
        assert len(one) == (len(word) + 1) // 2


def test_sums_of_sentencepiece_are_exact() -> None:
    # All partial sums of 128 tokens, in float32, equal those in whole numbers.
    rng = np.random.default_rng(0)
    for steps in (rng.integers(0, LEVELS, SHORT_WORD), np.zeros(SHORT_WORD, dtype=np.int64)):
        scores = file_scores(steps, 0, each=SHORT_EACH)
        assert (np.cumsum(scores.astype(np.float32)) == np.cumsum(scores)).all()


def test_losses_of_a_long_word_take_linear_time() -> None:
    counts = WordCounts.from_pairs([(b"a" * 1_000_000, 1)])
    tokens = [b"a", b"aa", b"aaaa"]
    ones = np.ones(3, dtype=np.uint8)
    lost, token_counts, total = removal_losses(
        counts.data, counts.offsets, counts.counts, trie_of(tokens), np.zeros(3), ones,
        np.array([0, 1, 1], dtype=np.uint8),
    )  # fmt: skip
    assert total == token_counts[2] == 250_000
    assert lost.tolist() == [0, 0, 250_000]
