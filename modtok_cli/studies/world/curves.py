"""Curves over training steps: means over seeds, and the delay of a regime behind joint training.

The delay is the factor by which a curve is stretched onto that of joint training: twice as many
steps to the same BLEU is a delay of 2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, inf, log
from statistics import fmean
from typing import Any

from modtok_cli.evaluate.results import student_interval
from modtok_cli.training.data.sampling import Regime

Curve = Sequence[tuple[int, float]]
"""(steps, value) with ascending steps."""

FACTS = ("facts-all", "facts-own", "facts-other")
FIGURES = (*FACTS, "BLEU", "in language", "bits per byte")
LEVELS = 200


@dataclass(frozen=True)
class System:
    """A sampling regime with its p, None where it has none."""

    regime: str
    p: float | None = None

    def __str__(self) -> str:
        return self.regime if self.p is None else f"{self.regime} p={self.p:g}"

    def share(self, languages: int) -> float:
        """Share of translation pairs in training that are spelled as at inference.

        A pair is text of one of its languages, with the other as one of `languages`. It is spelled
        as at inference if the vocabulary contains both.

        >>> System("joint").share(4), System("full", 0.5).share(4), System("none").share(4)
        (1.0, 0.5, 0.0)
        >>> System("sub:1", 0.9).share(4), System("sub:1", 0.9).share(2)
        (0.3, 0.9)
        """
        regime = Regime.parse(self.regime)
        if self.p is None:
            return float(regime.kind == "joint")
        others = regime.extra
        # Each of the other languages is drawn as often as another, on average over pairs.
        return self.p * (others / (languages - 1) if others else 1.0)


def systems_of(regimes: Sequence[str], p_values: Sequence[float]) -> list[System]:
    """Every regime with every p; those without p once."""
    return [
        System(regime, p)
        for regime in regimes
        for p in (p_values if Regime.parse(regime).has_p else (None,))
    ]


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95% interval of Student's t; the interval is infinite for one value.

    >>> [round(value, 2) for value in interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    ends = student_interval(values) if len(values) > 1 else (-inf, inf)
    return fmean(values), *ends


def at_step(curve: Curve, step: float) -> float | None:
    """The value at a step by interpolation in the logarithm of steps; None outside of the curve.

    >>> at_step([(1, 10.0), (4, 30.0)], 2), at_step([(100, 10.0)], 50)
    (20.0, None)
    """
    for (step_a, a), (step_b, b) in pairwise(curve):
        if step_a <= step <= step_b:
            return a + (b - a) * log(step / step_a) / log(step_b / step_a)
    return next((value for at, value in curve if at == step), None)


def delay(curve: Curve, reference: Curve, levels: int = LEVELS) -> float | None:
    """The factor between the steps in which two curves reach a level.

    It is the geometric mean over equally spaced levels that both curves pass. None if they pass
    none: one is below the other's first value to its end.

    >>> round(delay([(200, 10.0), (800, 50.0)], [(100, 10.0), (400, 50.0)]), 6)
    2.0
    >>> delay([(100, 1.0), (400, 2.0)], [(100, 10.0), (400, 50.0)]) is None
    True
    """
    curves = [_rising(each) for each in (curve, reference)]
    low = max(each[0][1] for each in curves)
    high = min(each[-1][1] for each in curves)
    if high <= low:
        return None
    every = [low + (high - low) * (number + 0.5) / levels for number in range(levels)]
    return exp(fmean(_reached(curves[0], each) - _reached(curves[1], each) for each in every))


def _rising(curve: Curve) -> list[tuple[float, float]]:
    """(logarithm of steps, largest value so far)."""
    points: list[tuple[float, float]] = []
    for step, value in curve:
        points.append((log(step), max(value, points[-1][1]) if points else value))
    return points


def _reached(points: Sequence[tuple[float, float]], level: float) -> float:
    """Where a rising curve reaches a level that it passes."""
    for (at_a, a), (at_b, b) in pairwise(points):
        if level <= b:
            return at_a + (at_b - at_a) * (level - a) / (b - a)
    raise AssertionError("unreachable")


def curves_of(
    rows: Sequence[Mapping[str, Any]], system: System, mode: str, figure: str
) -> dict[int, Curve]:
    """The curve of each seed that has one, by seed."""
    curves: dict[int, list[tuple[int, float]]] = {}
    for row in rows:
        place = (row["regime"], row["p"], row["infer"])
        if place == (system.regime, system.p, mode) and figure in row:
            curves.setdefault(row["seed"], []).append((row["step"], row[figure]))
    return {seed: sorted(curve) for seed, curve in curves.items()}
