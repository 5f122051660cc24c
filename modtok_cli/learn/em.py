"""Expectation-maximization of piece probabilities (the paper's Algorithm 1), on word counts.

No piece crosses a word, so the sum over all segmentations of a text is the product over
its words, and a word that occurs a thousand times is done once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from modtok_cli.learn.em_kernel import expect
from modtok_cli.learn.pieces import LearnedPieces, on_grid
from modtok_cli.learn.trie import build_trie
from modtok_cli.text.counts import WordCounts

Floats = npt.NDArray[np.float64]

CHUNKS = 32
"""Words are dealt into so many runs of equal size in bytes, whatever the number of threads,
and their sums added in order: the result is the same to the last bit on any machine."""

FLOOR_COUNT = 1e-3
"""A piece that is expected fewer times than this in the whole text has no count to speak of."""

TOLERANCE = 1e-6
ITERATIONS = 100


@dataclass(frozen=True)
class Step:
    """One iteration: likelihood (nats) of the probabilities it began with, and what it gave.

    `change`: relative to the likelihood before it, None for the first; `floor`: pieces
    whose expectation is below `FLOOR_COUNT`.
    """

    iteration: int
    log_likelihood: float
    change: float | None
    floor: int
    seconds: float

    def line(self) -> str:
        """For people."""
        change = "" if self.change is None else f", change {self.change:.2e}"
        return (
            f"EM {self.iteration}: log-likelihood {self.log_likelihood:.6e}{change}, "
            f"{self.floor:,} pieces at the floor, {self.seconds:.2f} s"
        )


@dataclass(frozen=True)
class Estimate:
    """Probabilities (V,), expected counts (V,) of the last E-step, every step, and the end."""

    probabilities: Floats
    expected: Floats
    steps: tuple[Step, ...]
    converged: bool

    @property
    def floor(self) -> int:
        """Pieces without a count to speak of."""
        return self.steps[-1].floor


@dataclass(frozen=True)
class Halfway:
    """EM after some steps: expected counts (V,) of the last one, and every step.

    Enough to go on to the last bit: probabilities and scale are made of them.
    """

    expected: Floats
    steps: tuple[Step, ...]


class Expectation:
    """The E-step over fixed words and pieces, on any number of threads.

    `tables`: word counts; each has a factor of `factors` (default 1) for its counts.
    """

    def __init__(
        self,
        pieces: LearnedPieces,
        tables: Sequence[WordCounts],
        factors: Sequence[float] | None = None,
        threads: int | None = None,
    ) -> None:
        self._first = pieces.first
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
                    _runs(table.offsets),
                )
            )
        self.bytes = sum(float(counts @ np.diff(offsets)) for _, offsets, counts, _ in self._tables)
        # Scale to nats a byte: at first a guess, afterwards what the last step found.
        self._log_scale = np.log(max(2, pieces.size)) / 5

    def __call__(self, probabilities: Floats) -> tuple[Floats, float]:
        """Expected counts (V,) and log-likelihood under probabilities (V,)."""
        # No piece so long that its factor would be no float.
        scale = float(min(self._log_scale, 600 / self._lengths.max()))
        # The kernel's row 0 is that of no piece; expected counts stand beside weights.
        table = np.zeros((len(probabilities) + 1, 2))
        table[1:, 0] = probabilities * np.exp(scale * self._lengths)

        def run(job: tuple[int, int, int]) -> tuple[Floats, float]:
            number, low, high = job
            data, offsets, counts, _ = self._tables[number]
            own = table.copy()
            likelihood = expect(
                data,
                offsets,
                counts,
                low,
                high,
                self._units,
                own,
                self._byte_entries,
                scale,
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
        self.found(likelihood)
        return total, likelihood

    def found(self, likelihood: float) -> None:
        """Scale the next step by what the last one gave; rounding depends on it."""
        if self.bytes > 0:
            self._log_scale = min(max(-likelihood / self.bytes, 0.0), 20.0)


def _runs(offsets: npt.NDArray[np.int64]) -> list[int]:
    """Word indices that deal the words into `CHUNKS` runs of about equal bytes."""
    marks = np.linspace(0, int(offsets[-1]), CHUNKS + 1)
    cuts: list[int] = np.searchsorted(offsets, marks).tolist()
    cuts[0], cuts[-1] = 0, len(offsets) - 1
    return cuts


def uniform_start(pieces: LearnedPieces) -> Floats:
    """p(v) = 1 / |V| for every byte and piece, 0 for special tokens; (V,) float64."""
    start = np.full(pieces.size, 1.0 / max(1, pieces.size - len(pieces.specials)))
    start[: len(pieces.specials)] = 0.0
    return start


def mean_start(pieces: LearnedPieces) -> Floats:
    """p(v) in proportion to exp(score): after `pieces.unite`, the mean of the languages."""
    start = np.exp(pieces.scores)
    start[: len(pieces.specials)] = 0.0
    total: Floats = start / start.sum()
    return total


def maximize(
    expectation: Expectation,
    start: Floats,
    *,
    first: int,
    tolerance: float = TOLERANCE,
    iterations: int = ITERATIONS,
    report: Callable[[Step], None] = lambda step: None,
    begun: Halfway | None = None,
    keep: Callable[[Halfway], None] = lambda state: None,
) -> Estimate:
    """Iterate p(v) = E[c(v)] / Σ E until the log-likelihood converges.

    Converged: it changed by less than `tolerance` of itself from one iteration to the next.
    `first`: id of the first piece, for the number of pieces at the floor.
    `keep` is handed the state after every step; with it as `begun`, and all else the same,
    the result is that of having gone through, to the last bit.

    Raises:
        ValueError: the text has no words.
    """
    probabilities = start
    steps: list[Step] = []
    expected = np.zeros_like(start)
    if begun is not None:
        expected, steps = begun.expected, list(begun.steps)
        probabilities = expected / expected.sum()
        expectation.found(steps[-1].log_likelihood)
    while len(steps) < iterations and not _converged(steps, tolerance):
        began = time.perf_counter()
        expected, likelihood = expectation(probabilities)
        total = expected.sum()
        if not total > 0:
            raise ValueError("there are no words to estimate from")
        probabilities = expected / total
        change = None
        if steps:
            before = steps[-1].log_likelihood
            change = (likelihood - before) / abs(before) if before else 0.0
        floor = int((expected[first:] < FLOOR_COUNT).sum())
        seconds = time.perf_counter() - began
        steps.append(Step(len(steps) + 1, likelihood, change, floor, seconds))
        report(steps[-1])
        keep(Halfway(expected, tuple(steps)))
    return Estimate(probabilities, expected, tuple(steps), _converged(steps, tolerance))


def _converged(steps: Sequence[Step], tolerance: float) -> bool:
    change = steps[-1].change if steps else None
    return change is not None and abs(change) < tolerance


def floor_probability(expected: Floats) -> float:
    """The probability of a piece that is expected `FLOOR_COUNT` times."""
    return float(FLOOR_COUNT / max(expected.sum(), 1.0))


def rescored(pieces: LearnedPieces, estimate: Estimate) -> LearnedPieces:
    """The pieces with the estimate's log-probabilities as scores.

    A piece at the floor gets the score of one that is expected `FLOOR_COUNT` times.
    """
    scores = np.zeros(pieces.size)
    own = slice(len(pieces.specials), None)
    least = floor_probability(estimate.expected)
    scores[own] = np.log(np.maximum(estimate.probabilities[own], least))
    return replace(pieces, scores=on_grid(scores))
