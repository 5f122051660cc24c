"""The compiled E-step against Algorithm 1 as it is written."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.examples import examples
from modtok_cli.base.membership import Membership
from modtok_cli.learn.em import (
    EmStep,
    Estimate,
    Expectation,
    Way,
    maximize,
    rescored,
    uniform_start,
)
from modtok_cli.learn.pieces import SCORE_STEP, LearnedPieces, make_pieces
from modtok_cli.reference.unigram import forward_backward
from modtok_cli.text.counts import WordCounts, count_documents
from modtok_cli.text.pretokenizer import UNIGRAM

SPECIALS = ("<unk>", "<|endoftext|>")


def vocabulary(pieces: list[bytes]) -> LearnedPieces:
    return make_pieces(
        ["xx"], SPECIALS, pieces, np.full(len(pieces), -1.0), Membership.everywhere(len(pieces), 1)
    )


def index(pieces: LearnedPieces) -> dict[bytes, int]:
    return {piece: pieces.first + i for i, piece in enumerate(pieces.pieces())}


def random_probabilities(pieces: LearnedPieces, seed: int) -> np.ndarray:
    weights = np.random.default_rng(seed).gamma(0.3, size=pieces.size) + 1e-6
    weights[: len(pieces.specials)] = 0
    return weights / weights.sum()


word = st.text("ab é", min_size=1, max_size=7).map(str.encode)


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(st.text("ab é", min_size=1, max_size=4).map(str.encode), unique=True, max_size=14),
    st.dictionaries(word, st.integers(1, 50), min_size=1, max_size=6),
    st.integers(0, 2**32),
)
def test_expectation_is_algorithm_1(
    tokens: list[bytes], words: dict[bytes, int], seed: int
) -> None:
    pieces = vocabulary(tokens)
    probabilities = random_probabilities(pieces, seed)
    counts = WordCounts.from_pairs(words.items(), UNIGRAM)
    expectation = Expectation(pieces, [counts])
    slow, slow_likelihood = forward_backward(
        list(words.items()), index(pieces), probabilities.tolist(), pieces.byte_ids.tolist()
    )
    for _ in range(2):  # the second time with the scale that the first one found
        expected, likelihood = expectation(probabilities)
        np.testing.assert_allclose(expected, slow, rtol=1e-9, atol=1e-300)
        assert likelihood == pytest.approx(slow_likelihood, rel=1e-9)


TEXT = (
    "The quick brown fox jumps over the lazy dog; the other foxes sleep. Où est la clé de "
    "l'hôtel ? Viele Wörter, lange Zusammensetzungen, Donaudampfschifffahrt. Ελληνικά επίσης, "
    "नमस्ते दुनिया, 12 345 and 3.14 …"
)


def real() -> tuple[LearnedPieces, WordCounts]:
    counts = count_documents([[TEXT.encode(), TEXT.lower().encode(), b"the the the " * 9]], UNIGRAM)
    tokens = {
        w[i:j].decode(errors="ignore").encode()
        for w in counts.words()
        for i in range(len(w))
        for j in range(i + 1, min(len(w), i + 7) + 1)
    } - {b"", "é".encode(), "न".encode()}
    return vocabulary(sorted(tokens)), counts


def test_words_beyond_the_range_of_floats() -> None:
    """A word of 5,000 letters: its probability is no float, its expectations are."""
    pieces = vocabulary([b"a", b"aa", b"b"])
    probabilities = np.zeros(pieces.size)
    a, aa, b = (index(pieces)[piece] for piece in (b"a", b"aa", b"b"))
    probabilities[[a, aa, b]] = 0.5, 0.25, 1e-30
    n = 5000
    counts = WordCounts.from_pairs([(b"a" * n, 2), (b"b" * 40, 1), (b"ab", 1)], UNIGRAM)
    expected, likelihood = Expectation(pieces, [counts])(probabilities)
    assert expected[a] + 2 * expected[aa] == pytest.approx(2 * n + 1, rel=1e-9)
    # f(n) = f(n-1)/2 + f(n-2)/4 has the closed form of Fibonacci numbers, F(n+1) / 2^n.
    golden = (1 + math.sqrt(5)) / 2
    log_f = (n + 1) * math.log(golden) - math.log(math.sqrt(5)) - n * math.log(2)
    expected_likelihood = 2 * log_f + 40 * math.log(1e-30) + math.log(0.5e-30)
    assert likelihood == pytest.approx(expected_likelihood, rel=1e-9)


def test_likelihood_increases_to_a_distribution() -> None:
    pieces, counts = real()
    lines: list[str] = []
    estimate = maximize(
        Expectation(pieces, [counts]),
        tolerance=0.0,
        iterations=40,
        report=lambda step: lines.append(step.line()),
    )
    values = [step.log_likelihood for step in estimate.steps]
    assert all(b >= a - 1e-10 * abs(a) for a, b in pairwise(values))
    assert values[-1] > values[0] + 1
    assert len(lines) == 40
    assert "pieces at the floor" in lines[0]
    assert estimate.probabilities.sum() == pytest.approx(1.0)
    assert estimate.floor > 0
    scores = rescored(pieces, estimate).scores
    assert scores[len(SPECIALS) :].max() < 0
    assert np.all(scores / SCORE_STEP == np.rint(scores / SCORE_STEP))
    assert (scores[pieces.first :] == scores[len(SPECIALS) :].min()).sum() >= estimate.floor


def test_resuming_from_any_step_is_bit_identical() -> None:
    """Also from the last one, after which nothing is left to do."""
    pieces, counts = real()
    states: list[Estimate] = []

    def run(begun: Estimate | None = None):  # type: ignore[no-untyped-def]
        steps: list[int] = []
        estimate = maximize(
            Expectation(pieces, [counts]),
            tolerance=1e-3,
            resume=begun,
            report=lambda step: steps.append(step.iteration),
            keep=states.append if begun is None else lambda state: None,
        )
        return estimate, steps

    whole, every = run()
    assert whole.converged
    assert len(states) == len(every) > 5
    for number, state in enumerate(states, 1):
        estimate, steps = run(state)
        assert steps == every[number:]
        assert estimate.probabilities.tobytes() == whole.probabilities.tobytes()
        assert estimate.expected.tobytes() == whole.expected.tobytes()
        assert estimate.converged
        likelihoods = [[step.log_likelihood for step in e.steps] for e in (estimate, whole)]
        assert likelihoods[0] == likelihoods[1]


@pytest.mark.parametrize("threads", [2, 5])
def test_bit_identical_for_any_threads(threads: int) -> None:
    pieces, counts = real()
    probabilities = random_probabilities(pieces, 7)
    one = Expectation(pieces, [counts], threads=1)(probabilities)
    more = Expectation(pieces, [counts], threads=threads)(probabilities)
    assert one[0].tobytes() == more[0].tobytes()
    assert one[1] == more[1]


def test_the_start_is_a_distribution() -> None:
    pieces = vocabulary([b"a", b"b"])
    start = uniform_start(pieces)
    assert start.sum() == pytest.approx(1.0)
    assert (start[:2] == 0).all()
    assert (start[2:] > 0).all()


def test_no_words() -> None:
    pieces = vocabulary([b"a"])
    with pytest.raises(ValueError, match="no words"):
        maximize(Expectation(pieces, [WordCounts.from_pairs([], UNIGRAM)]))


def test_the_way_to_convergence_is_measured_in_factors() -> None:
    changes = [None, 1e-1, 1e-2, 2e-2, 1e-4, 1e-7]
    way = Way(tolerance=1e-5, iterations=100)
    steps = [EmStep(number, -1.0, change, 0, 0.0) for number, change in enumerate(changes, 1)]
    moves = [way.percent(step) for step in steps]
    assert moves == pytest.approx([1, 1, 23, 0, 50, 25])
    way = Way(tolerance=0.0, iterations=4)
    assert [way.percent(step) for step in steps[:4]] == pytest.approx([25, 25, 25, 25])
