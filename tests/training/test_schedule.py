"""Learning-rate schedules."""

import pytest

from modtok_cli.training.schedule import Schedule
from modtok_cli.training.settings import OPTIONS


@pytest.mark.parametrize("kind", OPTIONS["schedule"].choices)
def test_warm_up_and_end(kind: str) -> None:
    schedule = Schedule(kind, 1.0, 0.1, 10, 20, 110)
    assert [schedule.rate(step) for step in (1, 5, 10)] == [0.1, 0.5, 1.0]
    final = 1.0 if kind == "constant" else 0.1
    assert schedule.rate(110) == schedule.rate(500) == pytest.approx(final)
    rates = [schedule.rate(step) for step in range(10, 130)]
    assert rates == sorted(rates, reverse=True)


def test_wsd_is_stable_then_linear() -> None:
    schedule = Schedule("wsd", 1.0, 0.0, 10, 20, 110)
    assert schedule.rate(90) == 1.0
    assert schedule.rate(100) == pytest.approx(0.5)
