"""What the paper says about its regimes, as differences between two systems, and their tests.

The claims were written down before any model of the study was trained. A system is a sampling
regime under an inference mode. Each seed has a world, a tokenizer and a model of its own for
every regime, so that differences are paired by seed. The interval is that of Student's t.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any, Literal

from modtok_cli.base.errors import UsageError
from modtok_cli.evaluate.results import student_interval

System = tuple[str, str]
"""Regime and inference mode."""
Figures = Mapping[tuple[str, str, str], float]
"""(regime, mode, figure) → value of one seed, from 0 to 100."""

SAME = 3.0
"""Points of BLEU or accuracy within which two systems are called equal."""
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
    of: System
    against: System | float
    expected: Literal["lower", "higher", "equal"]


_JOINT = ("joint", "full")
CLAIMS = (
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


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and 95% interval of Student's t; the interval is infinite for one value.

    >>> [round(value, 2) for value in interval([1.0, 2.0, 3.0])]
    [2.0, -0.48, 4.48]
    """
    ends = student_interval(values) if len(values) > 1 else (float("-inf"), float("inf"))
    return fmean(values), *ends


def verdict(expected: str, low: float, high: float) -> str:
    """Whether an interval of the difference is what was expected: "yes", "no" or "open".

    >>> verdict("lower", -5.0, -1.0), verdict("lower", 1.0, 5.0), verdict("equal", -1.0, 4.0)
    ('yes', 'no', 'open')
    """
    if expected == "equal":
        if low >= -SAME and high <= SAME:
            return "yes"
        return "no" if high < -SAME or low > SAME else "open"
    if expected == "higher":
        low, high = -high, -low
    if high < 0:
        return "yes"
    return "no" if low > 0 else "open"


def check_claims(
    seeds: Sequence[Figures], claims: Sequence[Claim] = CLAIMS
) -> list[dict[str, Any]]:
    """A row for each claim whose systems all seeds have.

    Returns:
        claim, figure, of, against, the mean of each, difference with low and high, effect (the
        difference divided by its standard deviation over seeds; None if that is 0), expected,
        holds, and seeds.
    """
    if not seeds:
        raise UsageError("no results to test claims on")
    rows = []
    for claim in claims:
        pairs = []
        for seed in seeds:
            ours, theirs = _value(seed, claim.of, claim), _value(seed, claim.against, claim)
            if ours is not None and theirs is not None:
                pairs.append((ours, theirs))
        if len(pairs) < len(seeds):
            continue
        differences = [ours - theirs for ours, theirs in pairs]
        mean, low, high = interval(differences)
        spread = stdev(differences) if len(differences) > 1 else 0.0
        rows.append(
            {
                "claim": claim.text,
                "figure": claim.figure,
                "of": _name(claim.of),
                "against": _name(claim.against),
                "value": fmean(ours for ours, _ in pairs),
                "other": fmean(theirs for _, theirs in pairs),
                "difference": mean,
                "low": low if len(pairs) > 1 else None,
                "high": high if len(pairs) > 1 else None,
                "effect": mean / spread if spread else None,
                "expected": claim.expected,
                "holds": verdict(claim.expected, low, high),
                "seeds": len(pairs),
            }
        )
    return rows


def _value(figures: Figures, system: System | float, claim: Claim) -> float | None:
    if isinstance(system, float):
        return system
    return figures.get((*system, claim.figure))


def _name(system: System | float) -> str:
    return f"{system:g}" if isinstance(system, float) else " ".join(system)
