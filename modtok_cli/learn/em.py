"""Expectation-maximization of piece probabilities (the paper's Algorithm 1), on word counts.

No piece crosses a word, so the sum over all segmentations of a text is the product over
its words, and a word that occurs a thousand times is done once.
"""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log

import numpy as np

from modtok_cli.base.arrays import Float64Array, Int64Array
from modtok_cli.core.learn import expect
from modtok_cli.core.segment import build_trie
from modtok_cli.learn.pieces import LearnedPieces, on_grid
from modtok_cli.text.counts import WordCounts

CHUNKS = 32
"""Number of chunks of words, independent of the number of threads. Their sums are added in
order, so that the result is bit-identical on any machine."""

FLOOR_COUNT = 1e-3
"""A piece with a smaller expected count in the whole text is at the floor."""

TOLERANCE = 1e-6
ITERATIONS = 100


@dataclass(frozen=True)
class EmStep:
    """One iteration: likelihood (nats) of the probabilities before it, and its result.

    `change`: relative change of the likelihood, None for the first; `floor`: number of
    pieces with an expected count below `FLOOR_COUNT`.
    """

    iteration: int
    log_likelihood: float
    change: float | None
    floor: int
    seconds: float

    def line(self) -> str:
        """A line for the progress display."""
        change = "" if self.change is None else f", change {self.change:.2e}"
        return (
            f"EM {self.iteration}: log-likelihood {self.log_likelihood:.6e}{change}, "
            f"{self.floor:,} pieces at the floor, {self.seconds:.2f} s"
        )


class Way:
    """How far EM is on its way to its end.

    Changes shrink by about the same factor in each iteration, so their logarithm measures it.
    """

    def __init__(self, tolerance: float, iterations: int) -> None:
        self._tolerance = tolerance
        self._iterations = iterations
        self._first: float | None = None
        self._done = 0.0

    def percent(self, step: EmStep) -> float:
        """The share of the step, in percent."""
        done = step.iteration / self._iterations
        change = step.change
        if change is not None and change > 0 and self._tolerance > 0:
            self._first = max(change, self._tolerance) if self._first is None else self._first
            whole = log(self._first / self._tolerance)
            if whole > 0:
                done = max(done, log(self._first / change) / whole)
        before, self._done = self._done, max(self._done, 100 * min(done, 1.0))
        return self._done - before


@dataclass(frozen=True)
class Estimate:
    """EM after some steps: expected counts (V,) of the last one, and all steps.

    All else follows from these, so that a resumed EM is bit-identical.
    """

    expected: Float64Array
    steps: tuple[EmStep, ...]
    converged: bool = False

    @property
    def probabilities(self) -> Float64Array:
        """(V,) float64."""
        probabilities: Float64Array = self.expected / self.expected.sum()
        return probabilities

    @property
    def floor(self) -> int:
        """Number of pieces at the floor."""
        return self.steps[-1].floor


class Expectation:
    """The E-step over fixed words and pieces, on any number of threads.

    `tables`: word counts; each has a factor of `factors` (default 1) for its counts. `pieces` is
    kept.
    """

    def __init__(
        self,
        pieces: LearnedPieces,
        tables: Sequence[WordCounts],
        factors: Sequence[float] | None = None,
        threads: int | None = None,
    ) -> None:
        self.pieces = pieces
        self._lengths = np.diff(pieces.token_offsets)
        self._units = build_trie(
            pieces.token_data,
            pieces.token_offsets[pieces.first :],
            np.arange(pieces.first, pieces.size),
        )
        self._byte_entries = pieces.byte_ids + np.int32(1)
        self._threads = threads or os.cpu_count() or 1
        self._tables = []
        for table, factor in zip(tables, factors or [1.0] * len(tables), strict=True):
            self._tables.append(
                (
                    table.data,
                    table.offsets,
                    (table.counts * float(factor)).astype(np.float64),
                    _chunks(table.offsets),
                )
            )
        self.bytes = sum(float(counts @ np.diff(offsets)) for _, offsets, counts, _ in self._tables)
        # Scale in nats per byte: a guess at first, then from the last step.
        self._log_scale = np.log(max(2, pieces.size)) / 5

    def __call__(self, probabilities: Float64Array) -> tuple[Float64Array, float]:
        """Expected counts (V,) and log-likelihood under probabilities (V,)."""
        # Keep the factor of the longest piece within the range of floats.
        scale = float(min(self._log_scale, 600 / self._lengths.max()))
        # Row 0 of the table means no piece; column 1 holds the expected counts.
        table = np.zeros((len(probabilities) + 1, 2))
        table[1:, 0] = probabilities * np.exp(scale * self._lengths)

        def run(job: tuple[int, int, int]) -> tuple[Float64Array, float]:
            number, low, high = job
            data, offsets, counts, _ = self._tables[number]
            own = table.copy()
            likelihood = expect(
                data, offsets, counts, low, high, self._units, own, self._byte_entries, scale
            )
            return own[1:, 1], likelihood

        jobs = [
            (number, low, high)
            for number, (_, _, _, cuts) in enumerate(self._tables)
            for low, high in pairwise(cuts)
            if high > low
        ]
        total, likelihood = np.zeros(len(probabilities)), 0.0
        with ThreadPoolExecutor(self._threads) as pool:
            for expected, part in pool.map(run, jobs):
                total += expected
                likelihood += part
        self.rescale(likelihood)
        return total, likelihood

    def rescale(self, likelihood: float) -> None:
        """Set the scale of the next step from the last likelihood; rounding depends on it."""
        if self.bytes > 0:
            self._log_scale = min(max(-likelihood / self.bytes, 0.0), 20.0)


def _chunks(offsets: Int64Array) -> list[int]:
    """Word indices that split the words into `CHUNKS` chunks of about equal bytes."""
    marks = np.linspace(0, int(offsets[-1]), CHUNKS + 1)
    cuts: list[int] = np.searchsorted(offsets, marks).tolist()
    cuts[0], cuts[-1] = 0, len(offsets) - 1
    return cuts


def uniform_start(pieces: LearnedPieces) -> Float64Array:
    """p(v) = 1 / |V| for every byte and piece, 0 for special tokens; (V,) float64."""
    start = np.full(pieces.size, 1.0 / max(1, pieces.size - len(pieces.specials)))
    start[: len(pieces.specials)] = 0.0
    return start


def maximize(
    expectation: Expectation,
    *,
    tolerance: float = TOLERANCE,
    iterations: int = ITERATIONS,
    report: Callable[[EmStep], None] = lambda step: None,
    resume: Estimate | None = None,
    keep: Callable[[Estimate], None] = lambda state: None,
) -> Estimate:
    """Iterate p(v) = E[c(v)] / Σ E until the log-likelihood converges.

    Args:
        expectation: the E-step; `uniform_start` of its pieces comes first.
        tolerance: relative change of the log-likelihood below which EM has converged.
        iterations: largest number of iterations.
        report: called with every step.
        resume: state of an interrupted run; the result is bit-identical to the result of a run
            without interruption.
        keep: called with the state after every step.

    Raises:
        ValueError: the text has no words.
    """
    probabilities = uniform_start(expectation.pieces)
    steps: list[EmStep] = []
    expected = np.zeros_like(probabilities)
    if resume is not None:
        expected, steps = resume.expected, list(resume.steps)
        probabilities = resume.probabilities
        expectation.rescale(steps[-1].log_likelihood)
    while len(steps) < iterations and not _converged(steps, tolerance):
        start_time = time.perf_counter()
        expected, likelihood = expectation(probabilities)
        total = expected.sum()
        if not total > 0:
            raise ValueError("the text has no words")
        probabilities = expected / total
        change = None
        if steps:
            before = steps[-1].log_likelihood
            change = (likelihood - before) / abs(before) if before else 0.0
        floor = int((expected[expectation.pieces.first :] < FLOOR_COUNT).sum())
        seconds = time.perf_counter() - start_time
        steps.append(EmStep(len(steps) + 1, likelihood, change, floor, seconds))
        report(steps[-1])
        keep(Estimate(expected, tuple(steps)))
    return Estimate(expected, tuple(steps), _converged(steps, tolerance))


def _converged(steps: Sequence[EmStep], tolerance: float) -> bool:
    change = steps[-1].change if steps else None
    return change is not None and abs(change) < tolerance


def rescored(pieces: LearnedPieces, estimate: Estimate) -> LearnedPieces:
    """The pieces with the estimate's log-probabilities as scores.

    A piece at the floor gets the score of an expected count of `FLOOR_COUNT`.
    """
    scores = np.zeros(pieces.size)
    own = slice(len(pieces.specials), None)
    smallest = FLOOR_COUNT / max(estimate.expected.sum(), 1.0)
    scores[own] = np.log(np.maximum(estimate.probabilities[own], smallest))
    return replace(pieces, scores=on_grid(scores))
