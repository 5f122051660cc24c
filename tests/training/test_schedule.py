"""When a run learns how fast, and when it evaluates."""

from __future__ import annotations

from math import ceil
from pathlib import Path

import pytest

from modtok_cli.training.evaluations import evaluation_plan, fitted
from modtok_cli.training.resolve import resolve
from modtok_cli.training.schedule import Schedule
from modtok_cli.training.settings import OPTIONS, RunSettings


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


def third(settings: RunSettings, languages: int) -> float:
    """Tokens of all evaluations relative to those of training, a third each: no backward pass."""
    config = fitted(resolve(settings, gpu=False), settings, languages)
    texts = languages * (1 + len(config.valid or {}))
    tokens = max(config.seq_length, config.eval_bytes / 2) * texts
    times = ceil(config.steps / config.eval_every)
    return times * tokens / 3 / (config.steps * config.step_tokens)


@pytest.mark.parametrize("languages", [1, 3, 21, 128])
@pytest.mark.parametrize("steps", [200, 300, 5_000, 300_000])
def test_evaluation_takes_a_tenth_at_most(languages: int, steps: int) -> None:
    assert third(RunSettings(steps=steps), languages) <= 0.1001
    assert third(RunSettings(steps=steps, eval_every=100), languages) <= 0.1001
    assert third(RunSettings(steps=steps, valid={"a": Path("a")}), languages) <= 0.1001


def test_less_often_before_too_few_bytes() -> None:
    def of(languages: int, **given: int) -> tuple[int, int]:
        settings = RunSettings(**given)
        config = fitted(resolve(settings, gpu=False), settings, languages)
        return config.eval_every, config.eval_bytes

    assert of(3, steps=300) == (30, 12288)
    assert of(21, steps=300) == (75, 4388)
    assert of(21, steps=12) == (12, 702)  # the last step, one sequence at least
    assert of(128, steps=12) == (12, 512)
    assert of(21, steps=300_000) == (1000, 58514)
    assert of(21, steps=12, eval_every=1, eval_bytes=1 << 16) == (1, 1 << 16)  # as asked for
    assert of(3, steps=300, eval_bytes=1 << 16) == (300, 1 << 16)


def test_the_plan_says_what_evaluation_takes() -> None:
    settings = RunSettings(steps=300)
    config = fitted(resolve(settings, gpu=False), settings, 3)
    assert evaluation_plan(config, 3) == (
        "10 evaluations of up to 12,288 bytes of each of 3 texts, about 10% of training's time"
    )
