"""Claims about systems at every step, curves and delays: intervals over seeds, what follows."""

from __future__ import annotations

from math import log, sqrt
from typing import Any

import pytest
from scipy.stats import ttest_rel

from modtok_cli.base.errors import UsageError
from modtok_cli.reports.kinds.world import mean_rows
from modtok_cli.studies.world.claims import CLAIMS, Claim, check_claims, verdict
from modtok_cli.studies.world.curves import (
    FIGURES,
    System,
    at_step,
    delay,
    interval,
    systems_of,
)
from modtok_cli.studies.world.study import REGIMES, curve_rows
from modtok_cli.training.data.sampling import Mixture, Regime, draw

LOWER = Claim("is lower", "BLEU", ("none", "lang"), ("joint", "full"), "lower")
ABOVE = Claim("is above chance", "facts-other", ("none", "lang"), 25.0, "higher")
PLAIN = systems_of(["joint", "none"], [0.5])


def row(
    regime: str, infer: str, value: float, step: int = 100, p: float | None = None, seed: int = 0,
    figure: str = "BLEU",
) -> dict[str, Any]:  # fmt: skip
    return {"regime": regime, "p": p, "seed": seed, "step": step, "infer": infer, figure: value}


def world(seed: int, none: float, joint: float, other: float) -> list[dict[str, Any]]:
    return [
        {**row("none", "lang", none, seed=seed), "facts-other": other},
        row("joint", "full", joint, seed=seed),
    ]


def test_interval_is_that_of_the_paired_t_test() -> None:
    ours, theirs = [3.0, 5.5, 4.0, 7.0], [2.0, 5.0, 1.0, 4.5]
    mean, low, high = interval([a - b for a, b in zip(ours, theirs, strict=True)])
    expected = ttest_rel(ours, theirs).confidence_interval(0.95)
    assert mean == pytest.approx(1.75)
    assert (low, high) == (pytest.approx(expected.low), pytest.approx(expected.high))
    assert interval([2.0])[1:] == (float("-inf"), float("inf"))


@pytest.mark.parametrize(
    ("expected", "low", "high", "holds"),
    [
        ("lower", -2.0, -0.1, "yes"),
        ("lower", 0.1, 2.0, "no"),
        ("lower", -1.0, 1.0, "open"),
        ("higher", 0.1, 2.0, "yes"),
        ("higher", -2.0, -0.1, "no"),
        ("equal", -3.0, 3.0, "yes"),
        ("equal", -3.1, 0.0, "open"),
        ("equal", -9.0, -3.1, "no"),
        ("equal", 3.1, 9.0, "no"),
        ("equal", float("-inf"), float("inf"), "open"),
    ],
)
def test_verdicts(expected: str, low: float, high: float, holds: str) -> None:
    assert verdict(expected, low, high) == holds


def test_rows_of_claims() -> None:
    seeds = [(1.0, 50.0, 26.0), (3.0, 60.0, 24.0), (2.0, 55.0, 25.0)]
    rows = [each for seed, values in enumerate(seeds) for each in world(seed, *values)]
    lower, above, late = check_claims(rows, PLAIN, 2, [LOWER, ABOVE])
    assert late["claim"] == "delay of none"
    assert (lower["of"], lower["against"]) == ("none lang", "joint full")
    assert (lower["step"], lower["p"]) == (100, None)
    assert (lower["value"], lower["other"], lower["difference"]) == (2.0, 55.0, -53.0)
    assert lower["effect"] == pytest.approx(-53 / 4)  # of -49, -57, -53
    assert (lower["holds"], lower["seeds"]) == ("yes", 3)
    assert (above["other"], above["difference"], above["effect"]) == (25.0, 0.0, 0.0)
    assert above["holds"] == "open"


def test_a_claim_needs_both_systems_in_every_seed() -> None:
    rows = [*world(0, 1.0, 2.0, 3.0), world(1, 1.0, 2.0, 3.0)[0]]
    found = check_claims(rows, PLAIN, 2, [LOWER, ABOVE])
    assert [each["claim"] for each in found] == [ABOVE.text]
    with pytest.raises(UsageError, match="no results"):
        check_claims([], PLAIN, 2)


def test_one_seed_settles_nothing() -> None:
    found, _ = check_claims(world(0, 1.0, 50.0, 25.0), PLAIN, 2, [LOWER])
    known = (found["low"], found["high"], found["effect"], found["holds"])
    assert known == (None, None, None, "open")


def test_a_claim_is_tested_for_every_p_and_step() -> None:
    claim = Claim("translates", "BLEU", ("full", "lang"), ("joint", "full"), "equal")
    rows = [
        each
        for seed in (0, 1)
        for step in (100, 200)
        for each in (
            row("joint", "full", 50.0, step, seed=seed),
            row("full", "lang", 10.0 + seed, step, 0.5, seed),
            row("full", "lang", 49.9 + seed / 10, step, 0.9, seed),
        )
    ]
    found = check_claims(rows, systems_of(["joint", "full"], [0.5, 0.9]), 2, [claim])
    verdicts = {(each["step"], each["p"]): each["holds"] for each in found if each["step"]
                and each["claim"] == "translates"}  # fmt: skip
    assert verdicts == {(100, 0.5): "no", (100, 0.9): "yes", (200, 0.5): "no", (200, 0.9): "yes"}


def test_claims_are_about_what_the_study_measures() -> None:
    for claim in CLAIMS:
        assert claim.figure in FIGURES
        for system in (claim.of, claim.against):
            assert isinstance(system, float) or system[0] in REGIMES
    assert len({claim.text for claim in CLAIMS}) == len(CLAIMS)


@pytest.mark.parametrize("regime", ["sub:1", "sub:2", "full"])
def test_the_share_of_pairs_is_that_of_the_draws(regime: str) -> None:
    """Of batches that quote a language beside their own, those whose vocabulary has both."""
    codes = ("a", "b", "c", "d")
    mixture = Mixture.of(dict.fromkeys(codes, 1), None, "uniform")
    drawn = [draw(Regime.parse(regime), 0.5, mixture, 0, step, 0) for step in range(6000)]
    both = 0
    for number, each in enumerate(drawn):
        others = [code for code in codes if code != each.language]
        known = codes if each.languages is None else each.languages
        both += others[number % 3] in known
    assert both / len(drawn) == pytest.approx(System(regime, 0.5).share(4), abs=0.02)


def curve(factor: float, steps: tuple[int, ...] = (100, 200, 400, 800)) -> list[tuple[int, float]]:
    """Values that rise with the logarithm of steps, late by a factor."""
    return [(step, 10 + 20 * log(step / factor)) for step in steps]


@pytest.mark.parametrize("factor", [1.0, 1.3, 2.0, 3.7])
def test_a_stretched_curve_has_its_factor_as_delay(factor: float) -> None:
    found = delay(curve(factor), curve(1.0))
    assert found == pytest.approx(factor)
    back = delay(curve(1.0), curve(factor))
    assert back == pytest.approx(1 / factor)
    # a setback in one point does not make a curve faster than its largest value so far
    low = [(50, 0.0), (75, 1.0), *curve(factor)]
    assert delay([*low[:1], (60, -5.0), *low[1:]], [(25, 0.0), *curve(1.0)]) is not None


def test_a_curve_that_stays_below_has_no_delay() -> None:
    assert delay([(100, 1.0), (800, 2.0)], curve(1.0)) is None
    assert delay([(100, 200.0), (800, 300.0)], curve(1.0)) is None


def test_values_between_steps() -> None:
    assert at_step(curve(1.0), 283) == pytest.approx(10 + 20 * log(283))
    assert at_step(curve(1.0), 800) == pytest.approx(10 + 20 * log(800))
    assert at_step(curve(1.0), 99) is None
    assert at_step([(5, 1.0)], 5) == 1.0


def test_delays_are_compared_with_the_predicted_ones() -> None:
    def rows(factors: list[float], late: str = "sub:1", at: float | None = 0.5) -> list[Any]:
        return [
            each
            for seed, factor in enumerate(factors)
            for regime, p, infer, points in (
                ("joint", None, "full", curve(1.0)),
                (late, at, "lang", curve(factor)),
            )
            for each in (row(regime, infer, value, step, p, seed) for step, value in points)
        ]

    systems = systems_of(["joint", "sub:1"], [0.5])
    found = check_claims(rows([1.9, 2.0, 2.1]), systems, 2)
    late = found[-1]
    assert (late["claim"], late["p"], late["step"]) == ("delay of sub:1", 0.5, None)
    assert late["value"] == pytest.approx((1.9 * 2 * 2.1) ** (1 / 3))
    logs = [log(1.9), log(2.0), log(2.1)]
    mean = sum(logs) / 3
    half = 4.302653 * sqrt(sum((each - mean) ** 2 for each in logs) / 2 / 3)
    assert log(2 + late["low"]) == pytest.approx(mean - half)
    assert log(2 + late["high"]) == pytest.approx(mean + half)
    assert (late["other"], late["holds"]) == (2.0, "yes")
    # at half of the steps joint training is as good, where its curve has that step
    beside = [each for each in found if each["claim"].endswith("after 0.5 of the steps")]
    assert [each["step"] for each in beside] == [200, 400, 800]
    assert all(each["difference"] == pytest.approx(0, abs=1) for each in beside)
    assert all(each["holds"] == "yes" for each in beside)
    assert check_claims(rows([1.0, 1.1, 0.9]), systems, 2)[-1]["holds"] == "no"
    assert check_claims(rows([1.0, 4.0, 2.0]), systems, 2)[-1]["holds"] == "open"
    never = check_claims(rows([2.0, 1e6]), systems, 2)[-1]
    assert (never["value"], never["holds"]) == (None, "open")
    # without practice no curve should reach that of joint training
    for factors, holds in (([1e6, 1e7], "yes"), ([1e6, 2.0], "open"), ([3.0, 2.0], "no")):
        found = check_claims(rows(factors, "none", None), PLAIN, 2)
        assert (found[-1]["claim"], found[-1]["against"]) == ("delay of none", "never")
        assert found[-1]["holds"] == holds
        assert (found[-1]["value"] is not None) == (holds == "no")
    assert check_claims(rows([2.0], "none", None), PLAIN, 2)[-1]["holds"] == "open"


def test_rows_of_curves_are_means_over_languages_and_pairs() -> None:
    def cell(task: str, metric: str, value: float) -> dict[str, object]:
        return {
            "sampling": "full", "p": 0.5, "seed": 0, "step": 9, "infer": "lang", "task": task,
            "metric": metric, "value": value,
        }  # fmt: skip

    bits = {"sampling": "joint", "p": 0.5, "seed": 0, "step": 9, "infer": "full"}
    found = curve_rows(
        [
            cell("mt", "BLEU", 10.0), cell("mt", "BLEU", 20.0), cell("mt", "chrF++", 90.0),
            cell("mt", "in language", 80.0), cell("facts-own", "acc", 40.0),
            {**bits, "bits_per_byte": 0.5}, {**bits, "bits_per_byte": 0.7},
        ]
    )  # fmt: skip
    head = {"regime": "full", "p": 0.5, "seed": 0, "step": 9, "infer": "lang"}
    joint = {"regime": "joint", "p": None, "seed": 0, "step": 9, "infer": "full"}
    assert found == [
        {**head, "facts-own": 40.0, "BLEU": 15.0, "in language": 80.0},
        {**joint, "bits per byte": 0.6},
    ]
    (mean, alone) = mean_rows([found[0], {**head, "seed": 1, "BLEU": 17.0}, found[1]])
    assert (mean["BLEU"], mean["seeds"], mean["facts-own"]) == (16.0, 2, 40.0)
    assert mean["BLEU_low"] < 15 < 17 < mean["BLEU_high"]
    assert "facts-own_low" not in mean
    assert (alone["seeds"], alone["bits per byte"]) == (1, 0.6)
