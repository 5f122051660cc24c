"""Learning-rate schedules, and changes of their length."""

from itertools import pairwise

import pytest

from modtok_cli.training.schedule import SCHEDULES, Schedule


@pytest.mark.parametrize("kind", SCHEDULES)
def test_warm_up_and_end(kind: str) -> None:
    schedule = Schedule(kind, 1.0, 0.1, 10, 20, ((1, 110),))
    assert [schedule.rate(step) for step in (1, 5, 10)] == [0.1, 0.5, 1.0]
    final = 1.0 if kind == "constant" else 0.1
    assert schedule.rate(110) == schedule.rate(500) == pytest.approx(final)
    rates = [schedule.rate(step) for step in range(10, 130)]
    assert rates == sorted(rates, reverse=True)


def test_wsd_is_stable_then_linear() -> None:
    schedule = Schedule("wsd", 1.0, 0.0, 10, 20, ((1, 110),))
    assert schedule.rate(90) == 1.0
    assert schedule.rate(100) == pytest.approx(0.5)


@pytest.mark.parametrize("kind", SCHEDULES)
@pytest.mark.parametrize(("seam", "end"), [(60, 300), (60, 70), (105, 400), (120, 400), (5, 50)])
def test_the_rate_is_continuous_where_the_length_changes(kind: str, seam: int, end: int) -> None:
    before = Schedule(kind, 1.0, 0.1, 10, 20, ((1, 110),))
    after = Schedule(kind, 1.0, 0.1, 10, 20, ((1, 110), (seam + 1, end)))
    rates = [after.rate(step) for step in range(1, 450)]
    # The steps before the change keep their rates; the next ones continue from the last.
    assert rates[:seam] == [before.rate(step) for step in range(1, seam + 1)]
    steepest = 0.9 * 3.2 / 2 / max(1, min(20, end - max(seam, 10)))
    jumps = [abs(b - a) for a, b in pairwise(rates[9:])]
    assert max(jumps) <= max(steepest, 0.9 / 10)
    assert rates[-1] == pytest.approx(1.0 if kind == "constant" else 0.1)


def test_two_changes() -> None:
    schedule = Schedule("cosine", 1.0, 0.0, 0, 0, ((1, 100), (51, 200), (101, 110)))
    assert schedule.rate(50) == pytest.approx(0.5)
    assert schedule.rate(51) == pytest.approx(0.5, abs=0.01)
    assert schedule.rate(100) - schedule.rate(101) < 0.02
    assert schedule.rate(110) == 0.0
