"""Claims about systems: intervals over seeds, and what follows from them."""

from __future__ import annotations

import pytest
from scipy.stats import ttest_rel

from modtok_cli.base.errors import UsageError
from modtok_cli.studies.world.claims import CLAIMS, Claim, check_claims, interval, verdict
from modtok_cli.studies.world.study import FIGURES, REGIMES, figures, score_rows

LOWER = Claim("is lower", "BLEU", ("none", "lang"), ("joint", "full"), "lower")
ABOVE = Claim("is above chance", "facts-other", ("none", "lang"), 25.0, "higher")


def seed(none: float, joint: float, other: float) -> dict[tuple[str, str, str], float]:
    return {
        ("none", "lang", "BLEU"): none,
        ("joint", "full", "BLEU"): joint,
        ("none", "lang", "facts-other"): other,
    }


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
    seeds = [seed(1.0, 50.0, 26.0), seed(3.0, 60.0, 24.0), seed(2.0, 55.0, 25.0)]
    lower, above = check_claims(seeds, [LOWER, ABOVE])
    assert (lower["of"], lower["against"]) == ("none lang", "joint full")
    assert (lower["value"], lower["other"], lower["difference"]) == (2.0, 55.0, -53.0)
    assert lower["effect"] == pytest.approx(-53 / 4)  # of -49, -57, -53
    assert (lower["holds"], lower["seeds"]) == ("yes", 3)
    assert (above["other"], above["difference"], above["effect"]) == (25.0, 0.0, 0.0)
    assert above["holds"] == "open"


def test_a_claim_needs_both_systems_in_every_seed() -> None:
    whole, part = seed(1.0, 2.0, 3.0), seed(1.0, 2.0, 3.0)
    del part["joint", "full", "BLEU"]
    assert [row["claim"] for row in check_claims([whole, part], [LOWER, ABOVE])] == [ABOVE.text]
    with pytest.raises(UsageError, match="no results"):
        check_claims([])


def test_one_seed_settles_nothing() -> None:
    (row,) = check_claims([seed(1.0, 50.0, 25.0)], [LOWER])
    assert (row["low"], row["high"], row["effect"], row["holds"]) == (None, None, None, "open")


def test_claims_are_about_what_the_study_measures() -> None:
    for claim in CLAIMS:
        assert claim.figure in FIGURES
        for system in (claim.of, claim.against):
            assert isinstance(system, float) or system[0] in REGIMES
    assert len({claim.text for claim in CLAIMS}) == len(CLAIMS)


def test_figures_are_means_over_languages_and_pairs() -> None:
    def row(task: str, metric: str, value: float) -> dict[str, object]:
        return {
            "system": "none", "infer": "lang", "task": task, "metric": metric, "value": value
        }  # fmt: skip

    found = figures(
        [
            row("mt", "BLEU", 10.0), row("mt", "BLEU", 20.0), row("mt", "chrF++", 90.0),
            row("mt", "in language", 80.0), row("facts-own", "acc", 40.0),
        ]
    )  # fmt: skip
    assert found == {
        ("none", "lang", "BLEU"): 15.0,
        ("none", "lang", "in language"): 80.0,
        ("none", "lang", "facts-own"): 40.0,
    }
    rows = score_rows([found, {("none", "lang", "BLEU"): 17.0}], ["none"])
    (lang,) = [each for each in rows if each["infer"] == "lang"]
    assert lang["BLEU"] == 16.0
    assert lang["BLEU_low"] < 15 < 17 < lang["BLEU_high"]
    assert lang["facts-own"] == 40.0
    assert "facts-own_low" not in lang
