"""Curves over training steps, what is expected of regimes, and the tests of both.

A system is a sampling regime under an inference mode. Each seed has a world, a tokenizer and
models of its own, so that differences are paired by seed. The interval is that of Student's t.
The delay is the factor by which a curve is stretched onto that of joint training: twice as many
steps to the same BLEU is a delay of 2.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, inf, log
from statistics import fmean, stdev
from typing import Any, Literal

from modtok_cli.training.data.sampling import Regime

Curve = Sequence[tuple[int, float]]
"""(steps, value) with ascending steps."""

LEVELS = 200


@dataclass(frozen=True)
class System:
    """A sampling regime with its p, None where it has none; or "baseline".

    The paper's Baseline has an ordinary tokenizer, learned on the text of all languages together,
    "joint" always T: the paper's Samp_Full with p = 1.
    """

    regime: str
    p: float | None = None

    def __str__(self) -> str:
        return self.regime if self.p is None else f"{self.regime} p={self.p:g}"

    @property
    def sampling(self) -> str:
        """Of the run."""
        return "joint" if self.regime == "baseline" else self.regime

    def share(self, languages: int) -> float:
        """Share of translation pairs in training that are spelled as at inference.

        A pair is text of one of its languages, with the other as one of `languages`. It is spelled
        as at inference if the vocabulary contains both.

        >>> System("joint").share(4), System("full", 0.5).share(4), System("none").share(4)
        (1.0, 0.5, 0.0)
        >>> System("sub:1", 0.9).share(4), System("sub:1", 0.9).share(2)
        (0.3, 0.9)
        """
        regime = Regime.parse(self.sampling)
        if self.p is None:
            return float(regime.kind == "joint")
        others = regime.extra
        # Each of the other languages is drawn as often as another, on average over pairs.
        return self.p * (others / (languages - 1) if others else 1.0)


def has_p(regime: str) -> bool:
    """Whether a regime depends on p."""
    return regime == "full" or regime.startswith("sub")


def systems_of(regimes: Sequence[str], p_values: Sequence[float]) -> list[System]:
    """Every regime with every p; those without p once."""
    return [
        System(regime, p) for regime in regimes for p in (p_values if has_p(regime) else (None,))
    ]


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95% interval of Student's t; the interval is infinite for one value.

    >>> [round(value, 2) for value in interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    from scipy.stats import t

    mean = fmean(values)
    if len(values) < 2:
        return mean, -inf, inf
    half = float(t.ppf(0.975, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return mean, mean - half, mean + half


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


Row = Mapping[str, Any]
Place = tuple[str, str]
"""Regime and inference mode."""

SAME = 3.0
"""Points of BLEU or accuracy within which two systems are called equal."""
SAME_DELAY = 1.25
"""Factor within which a delay is called equal to the predicted one."""
CHANCE = 25.0
"""Accuracy of guessing one of four answers."""


@dataclass(frozen=True)
class Claim:
    """A difference that the paper expects.

    Attributes:
        text: the claim.
        figure: "BLEU", "in language", "facts-all", "facts-own", "facts-other".
        of: the system.
        against: another system, or a fixed value.
        expected: of `of` minus `against`; "equal" means within `SAME` points.
    """

    text: str
    figure: str
    of: Place
    against: Place | float
    expected: Literal["lower", "higher", "equal"]


_JOINT, _BASELINE = ("joint", "full"), ("baseline", "full")
CLAIMS = (
    Claim("joint translates as Baseline", "BLEU", _JOINT, _BASELINE, "equal"),
    Claim("full translates as Baseline", "BLEU", ("full", "lang"), _BASELINE, "equal"),
    Claim("sub:2 translates as Baseline", "BLEU", ("sub:2", "lang"), _BASELINE, "equal"),
    Claim("joint knows as much as Baseline", "facts-all", _JOINT, _BASELINE, "equal"),
    Claim("none cannot translate", "BLEU", ("none", "lang"), _JOINT, "lower"),
    Claim("worse under T", "BLEU", ("none", "full"), ("none", "lang"), "lower"),
    Claim("src|tgt helps none", "BLEU", ("none", "src|tgt"), ("none", "lang"), "higher"),
    Claim("src|tgt is not enough", "BLEU", ("none", "src|tgt"), _JOINT, "lower"),
    Claim("none loses the language", "in language", ("none", "lang"), _JOINT, "lower"),
    Claim("full translates as joint", "BLEU", ("full", "lang"), _JOINT, "equal"),
    Claim("sub:1 translates as joint", "BLEU", ("sub:1", "lang"), _JOINT, "equal"),
    Claim("sub:2 translates as joint", "BLEU", ("sub:2", "lang"), _JOINT, "equal"),
    Claim("sub:2 translates under T", "BLEU", ("sub:2", "full"), ("sub:2", "lang"), "equal"),
    Claim("sub:2 keeps the language", "in language", ("sub:2", "full"), _JOINT, "equal"),
    Claim("none knows as much as joint", "facts-all", ("none", "lang"), _JOINT, "equal"),
    Claim("none knows less under T", "facts-all", ("none", "full"), ("none", "lang"), "lower"),
    Claim("full knows as much as joint", "facts-all", ("full", "lang"), _JOINT, "equal"),
    Claim("sub:2 knows as much as joint", "facts-all", ("sub:2", "lang"), _JOINT, "equal"),
    Claim("sub:2 knows it under T", "facts-all", ("sub:2", "full"), ("sub:2", "lang"), "equal"),
    Claim("joint transfers facts", "facts-other", _JOINT, CHANCE, "higher"),
    Claim("none transfers facts", "facts-other", ("none", "lang"), CHANCE, "higher"),
    Claim("sub:2 transfers as joint", "facts-other", ("sub:2", "lang"), _JOINT, "equal"),
)


def verdict(expected: str, low: float, high: float, same: float = SAME) -> str:
    """Whether an interval of the difference is what was expected: "yes", "no" or "open".

    Equal is a difference of at most `same`.

    >>> verdict("lower", -5.0, -1.0), verdict("lower", 1.0, 5.0), verdict("equal", -1.0, 4.0)
    ('yes', 'no', 'open')
    """
    if expected == "equal":
        if low >= -same and high <= same:
            return "yes"
        return "no" if high < -same or low > same else "open"
    if expected == "higher":
        low, high = -high, -low
    if high < 0:
        return "yes"
    return "no" if low > 0 else "open"


def check_claims(
    rows: Sequence[Row], systems: Sequence[System], languages: int
) -> list[dict[str, Any]]:
    """Rows of the claims that `rows` can test.

    Args:
        rows: a row for each regime, p, seed, step and mode, with figures.
        systems: those of the rows.
        languages: number of languages of the world.

    Returns:
        claim, p, step (None of a whole curve), figure, of, against, the mean of each (`value`,
        `other`), difference with low and high (None for one seed), expected, holds, and seeds.
    """
    return [
        *_at_steps(rows, systems),
        *(each for system in systems for each in _later(rows, system, languages)),
        *(each for system in systems for each in _delays(rows, system, languages)),
    ]


def _at_steps(rows: Sequence[Row], systems: Sequence[System]) -> Iterator[dict[str, Any]]:
    """The claims at every step, for every p of their regimes."""
    values: dict[tuple[Any, ...], dict[int, float]] = {}
    for row in rows:
        for figure, value in row.items():
            key = (row["step"], row["regime"], row["p"], row["infer"], figure)
            if isinstance(value, float):
                values.setdefault(key, {})[row["seed"]] = value
    seeds = sorted({row["seed"] for row in rows})
    for step in sorted({row["step"] for row in rows}):
        for claim in CLAIMS:
            for p in [each.p for each in systems if each.regime == claim.of[0]]:
                sides = []
                for place in (claim.of, claim.against):
                    if isinstance(place, float):
                        sides.append(dict.fromkeys(seeds, place))
                        continue
                    own = p if has_p(place[0]) else None
                    sides.append(values.get((step, place[0], own, place[1], claim.figure), {}))
                if all(sorted(side) == seeds for side in sides):
                    pairs = [(sides[0][seed], sides[1][seed]) for seed in seeds]
                    head = _head(claim.text, p, step, claim.figure, claim.of, claim.against)
                    yield _tested(head, pairs, claim.expected)


def _later(rows: Sequence[Row], system: System, languages: int) -> Iterator[dict[str, Any]]:
    """BLEU at a step beside that of joint training at the predicted share of the step."""
    share = system.share(languages)
    if not 0 < share < 1:
        return
    own = curves_of(rows, system, "lang", "BLEU")
    joint = curves_of(rows, System("joint"), "full", "BLEU")
    for step in sorted({step for curve in own.values() for step, _ in curve}):
        pairs = [
            (dict(curve)[step], at_step(joint[seed], share * step))
            for seed, curve in own.items()
            if seed in joint and step in dict(curve)
        ]
        known = [(ours, theirs) for ours, theirs in pairs if theirs is not None]
        if known and len(known) == len(own):
            text = f"{system.regime} translates as joint after {share:.2g} of the steps"
            head = _head(text, system.p, step, "BLEU", (system.regime, "lang"), _JOINT)
            yield _tested(head, known, "equal")


def _delays(rows: Sequence[Row], system: System, languages: int) -> Iterator[dict[str, Any]]:
    """The delay behind joint training, beside the predicted one: values are factors of steps.

    Without pairs spelled as at inference a curve is predicted to have none (`other` is None).
    """
    share = system.share(languages)
    own = curves_of(rows, system, "lang", "BLEU")
    joint = curves_of(rows, System("joint"), "full", "BLEU")
    if share == 1 or not own or not set(own) <= set(joint):
        return
    found = [delay(curve, joint[seed]) for seed, curve in own.items()]
    factors = [log(each) for each in found if each is not None]
    predicted = 1 / share if share else None
    row: dict[str, Any] = {
        **_head(f"delay of {system.regime}", system.p, None, "delay", (system.regime, "lang"),
                predicted or "never"),
        "value": None, "other": predicted, "difference": None, "low": None, "high": None,
        "expected": "equal", "holds": "open", "seeds": len(found),
    }  # fmt: skip
    if factors and len(factors) == len(found):
        mean, low, high = interval(factors)
        row["value"] = exp(mean)
        if predicted is None:
            row["holds"] = "no" if len(found) > 1 else "open"
        else:
            row["difference"] = exp(mean) - predicted
            if len(found) > 1:
                row["low"], row["high"] = exp(low) - predicted, exp(high) - predicted
            ends = (low - log(predicted), high - log(predicted))
            row["holds"] = verdict("equal", *ends, same=log(SAME_DELAY))
    elif predicted is None and not factors and len(found) > 1:
        row["holds"] = "yes"
    yield row


def _head(
    text: str,
    p: float | None,
    step: int | None,
    figure: str,
    of: Place,
    against: Place | float | str,
) -> dict[str, Any]:
    other = f"{against:g}" if isinstance(against, float) else against
    return {
        "claim": text,
        "p": p,
        "step": step,
        "figure": figure,
        "of": " ".join(of),
        "against": other if isinstance(other, str) else " ".join(other),
    }


def _tested(
    head: Mapping[str, Any], pairs: Sequence[tuple[float, float]], expected: str
) -> dict[str, Any]:
    """A row of the differences of (ours, theirs) of each seed."""
    differences = [ours - theirs for ours, theirs in pairs]
    mean, low, high = interval(differences)
    return {
        **head,
        "value": fmean(ours for ours, _ in pairs),
        "other": fmean(theirs for _, theirs in pairs),
        "difference": mean,
        "low": low if len(pairs) > 1 else None,
        "high": high if len(pairs) > 1 else None,
        "expected": expected,
        "holds": verdict(expected, low, high),
        "seeds": len(pairs),
    }
