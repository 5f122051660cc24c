"""Fewest tokens: constants that no rounding turns round, and the tokens that are kept."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from modtok_cli.base.errors import UsageError
from modtok_cli.core.learn import removal_losses
from modtok_cli.core.segment import SegmenterHandle, trie_of
from modtok_cli.learn.fewest_tokens import (
    EACH,
    LEVELS,
    LONGEST_WORD,
    SHORT_EACH,
    SHORT_WORD,
    SPECIAL_SCORE,
    estimate_token_counts,
    file_scores,
    likelihood_of_scores,
    likelihoods,
)
from modtok_cli.learn.merges import GlobalMerges
from modtok_cli.learn.prune import _halves, choose_tokens, damped, is_whole, whole_tokens
from modtok_cli.learn.sequential import learn_plain
from modtok_cli.reference.fewest_tokens import least, losses
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


@settings(max_examples=150, deadline=None)
@given(
    st.lists(two_letters.filter(lambda t: len(t) > 1), unique=True, max_size=8),
    st.dictionaries(two_letters, st.integers(1, 9), min_size=1, max_size=6),
    st.data(),
)
def test_losses_equal_removal(
    longer: list[bytes], words: dict[bytes, int], data: st.DataObject
) -> None:
    tokens = [b"a", b"b", *longer]
    steps = [data.draw(st.integers(0, 3)) for _ in tokens]
    counts = WordCounts.from_pairs(words.items())
    removable = np.array([len(token) > 1 for token in tokens], dtype=np.uint8)
    lost, token_counts, total = removal_losses(
        counts.data, counts.offsets, counts.counts, trie_of(tokens),
        np.array(steps, dtype=np.float64), np.ones(len(tokens), dtype=np.uint8), removable,
    )  # fmt: skip
    likelihood = dict(zip(tokens, steps, strict=True))
    assert {t: n for t, n in zip(tokens, lost.tolist(), strict=True) if len(t) > 1} == losses(
        words, likelihood
    )
    expected = dict.fromkeys(tokens, 0)
    for word, count in words.items():
        for token in least(word, likelihood):
            expected[token] += count
    assert token_counts.tolist() == list(expected.values())
    assert total == sum(expected.values())


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


TEXT = [(b" the", 90), (b" then", 30), (b" there", 20), (b"other", 7), ("été".encode(), 9)]
TEXT += [("κόσμος".encode(), 5), (b" thesis", 3), (b"a" * 40, 1), ("été then".encode(), 2)]


def wide(k: int) -> tuple[WordCounts, GlobalMerges]:
    counts = WordCounts.from_pairs(TEXT)
    return counts, learn_plain(counts, k, ("<|x|>",)).merges


@pytest.mark.parametrize("k", [257, 260, 265, 270])
@pytest.mark.parametrize("whole", [False, True])
def test_k_tokens_are_chosen(k: int, whole: bool) -> None:
    counts, merges = wide(290)
    if whole and k < 262:
        with pytest.raises(UsageError, match="single characters"):
            choose_tokens(counts, merges, k, whole_characters=True)
        return
    chosen = choose_tokens(counts, merges, k, whole_characters=whole)
    assert len(chosen.tokens) == k - 257 == len(set(chosen.tokens))
    assert list(chosen.tokens) == sorted(chosen.tokens, key=lambda t: (len(t), t))
    assert len(chosen.token_counts) == k
    if whole:
        assert all(map(is_whole, chosen.tokens))
        characters = {c for token in chosen.tokens for c in token.decode() if ord(c) > 127}
        assert {c.encode() for c in characters} <= set(chosen.tokens)


def test_the_best_token_is_kept() -> None:
    counts, merges = wide(290)
    assert choose_tokens(counts, merges, 258).tokens == (b" the",)


def test_a_small_text_gives_fewer_tokens() -> None:
    counts = WordCounts.from_pairs([(b"ab", 3)])
    assert choose_tokens(counts, learn_plain(counts, 300).merges, 300).tokens == (b"ab",)


def test_token_counts_decide_ties() -> None:
    # "abc" is ab|c or a|bc. At first all are as likely and the longer last token wins; then
    # the token_counts of "ab" and "c" elsewhere decide.
    counts = WordCounts.from_pairs([(b"abc", 1), (b"ab", 50), (b"c", 5)])
    tokens = [b"a", b"b", b"c", b"ab", b"bc"]
    assert estimate_token_counts(counts, trie_of(tokens), 5, rounds=1).tolist() == [1, 0, 5, 50, 1]
    assert estimate_token_counts(counts, trie_of(tokens), 5, rounds=2).tolist() == [0, 0, 6, 51, 0]


def test_damping_is_a_three_quarter_power() -> None:
    counts = np.array([1, 2, 16, 10_000, 81])
    assert damped(counts).tolist() == [64, 107, 512, 64_000, 1728]


def test_whole_tokens_contain_their_characters() -> None:
    pool = ["é".encode(), "ét".encode(), "ñu".encode(), b"\xc3", b"th", b"\xa9t"]
    assert whole_tokens(pool) == ["é".encode(), "ét".encode(), b"th"]


def test_halves_of_sources_are_of_about_the_same_size() -> None:
    sources = [WordCounts.from_pairs([(b"a", n)]) for n in (1, 1, 2)]
    assert [[each.occurrences for each in half] for half in _halves(sources)] == [[2], [1, 1]]
    assert _halves(sources[:1]) == (sources[:1], sources[:1])
