"""When a run learns how fast, and when it evaluates."""

from __future__ import annotations

from math import ceil, cos, pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from modtok_cli.training.evaluations import evaluation_plan, fitted
from modtok_cli.training.resolve import resolve
from modtok_cli.training.schedule import Schedule
from modtok_cli.training.settings import OPTIONS, RunSettings
from modtok_cli.training.stages import RATE, StageTable

KINDS = OPTIONS["schedule"].choices


def rate(step: int, kind: str, peak: float, final: float, warmup: int, decay: int, end: int,
         start: int = 0, reached: float = 0.0) -> float:  # fmt: skip
    """Lines between points; a cosine in place of the last one."""
    top = start + warmup
    last = max(top, end - decay) if kind == "wsd" else top
    if kind == "constant":
        final = peak
    if kind == "cosine" and top < step < end:
        return final + (peak - final) * (1 + cos(pi * (step - top) / (end - top))) / 2
    points = [(start, reached), (top, peak), (last, peak), (end, final)]
    points = points[:2] if start < step <= top else points[1:]
    return float(np.interp(step, *zip(*points, strict=True)))


@given(
    st.sampled_from(KINDS), st.integers(0, 5), st.integers(1, 12), st.integers(6, 12),
    st.integers(0, 9), st.sampled_from([0.0, 0.5, 2.0]), st.sampled_from([0.0, 0.1, 1.0]),
)  # fmt: skip
def test_rates_are_those_of_the_definition(
    kind: str, warmup: int, decay: int, steps: int, start: int, reached: float, final: float
) -> None:
    given = (kind, 1.0, final, warmup, decay, start + steps, start, reached)
    for step in range(start + 1, start + steps + 5):
        assert Schedule(*given).rate(step) == pytest.approx(rate(step, *given)), step


CHANGES: dict[str, Any] = {
    "lr": 2e-3, "final_lr": 1e-5, "schedule": "wsd", "warmup": 1, "decay_steps": 2,
    "batch_size": 2, "seq_length": 48, "rope_theta": 5e5, "mix": {"fi": 0.5}, "dropout": 0.1,
}  # fmt: skip


@given(st.lists(st.tuples(st.integers(1, 4), st.sets(st.sampled_from([*CHANGES]))), max_size=3))
def test_stages_follow_each_other(tables: list[tuple[int, set[str]]]) -> None:
    """What a stage does not set is as in the stage before; a rate begins where that one ended."""
    staged = [
        (
            steps,
            {name: CHANGES[name] for name in names if "schedule" in names or name != "decay_steps"},
        )
        for steps, names in tables
    ]
    stages = tuple(
        StageTable.read({"steps": steps, **options}, OPTIONS) for steps, options in staged
    )
    settings = RunSettings(
        steps=6, lr_steps=9, lr=1e-3, warmup=2, batch_size=4, micro_batch=4, stages=stages
    )
    config = resolve(settings, gpu=False)
    first, expected = config.periods[0], {name: config[name] for name in OPTIONS}
    own = config.schedule
    given: tuple[Any, ...] = (own.schedule, own.lr, own.final_lr, own.warmup,
                              own.decay_steps, own.lr_steps)  # fmt: skip
    assert (first.number, first.steps) == (1, range(1, 7))
    ends, at, tokens = [6], 6, 6 * config.step_tokens
    for (steps, options), period in zip(staged, config.periods[1:], strict=True):
        assert (period.number, period.steps) == (len(ends) + 1, range(at + 1, at + steps + 1))
        expected |= {name: value for name, value in options.items() if name not in RATE}
        expected["micro_batch"] = min(expected["micro_batch"], expected["batch_size"])
        for name in {*CHANGES} - {*RATE} | {"micro_batch", "steps", "seed"}:
            assert period.config[name] == expected[name], name
        assert period.config.shape.rope_theta == expected["rope_theta"]
        if {*options} & {*RATE}:
            kind, _, final, *_ = given
            reached = rate(at, *given)
            peak = options.get("lr", reached)
            usual = float(f"{peak / 10:.15g}") if "lr" in options else min(final, reached)
            given = (
                options.get("schedule", kind), peak, options.get("final_lr", usual),
                options.get("warmup", 0), options.get("decay_steps", max(1, steps // 5)),
                at + steps, at, reached,
            )  # fmt: skip
        for step in period.steps:
            assert config.lr_at(step) == pytest.approx(rate(step, *given))
        at, tokens = at + steps, tokens + steps * period.config.step_tokens
        ends.append(at)
    assert (config.last_step, config.tokens) == (at, tokens)


def third(settings: RunSettings, languages: int) -> float:
    """Tokens of all evaluations relative to those of training, a third each: no backward pass."""
    config = fitted(resolve(settings, gpu=False), settings, languages)
    texts = languages * (1 + len(config.evaluation.valid or {}))
    tokens = max(config.data.seq_length, config.evaluation.eval_bytes / 2) * texts
    times = ceil(config.schedule.steps / config.evaluation.eval_every)
    return times * tokens / 3 / (config.schedule.steps * config.step_tokens)


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
        return config.evaluation.eval_every, config.evaluation.eval_bytes

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
    once = config.changed(eval_every=300)
    assert evaluation_plan(once, 3).startswith("1 evaluation of up to 12,288 bytes")
    assert evaluation_plan(config, 3) == (
        "10 evaluations of up to 12,288 bytes of each of 3 texts, about 10% of training's time"
    )
