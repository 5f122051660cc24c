"""Mixtures, regimes of sampling, draws, and what shares a draw: a step, a rank, a microbatch."""

from __future__ import annotations

import multiprocessing
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.metrics import read_metrics
from helpers.microbatches import plan_of
from modtok_cli.base.errors import UsageError
from modtok_cli.training import prepare
from modtok_cli.training.config import Config
from modtok_cli.training.data.sampling import REGIMES, Mixture, Regime, draw, parse_mix, uniforms
from modtok_cli.training.data.stream import BatchStream
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.loop import pretrain
from modtok_cli.training.resolve import resolve
from modtok_cli.training.rows.microbatch import Prefetcher, Step
from modtok_cli.training.settings import RunSettings

FROZEN: list[object] = [
    ("de", ("de", "en", "fr")),
    ("fi", ("de", "en", "fi")),
    ("fr", ("de", "en", "fr")),
    ("de", ("de", "en", "fr")),
]
MIX = Mixture.of({"en": 700, "fi": 100, "fr": 200}, {"en": 0.7})


def draws(regime: str, p: float, mixture: Mixture = MIX):
    chosen = Regime.parse(regime)
    return [draw(chosen, p, mixture, 5, step, 3) for step in range(4000)]


def test_mixtures_by_size_uniform_and_between() -> None:
    """English has 70 percent unless it is said."""
    assert Mixture.of({"en": 1, "fi": 1}).as_dict() == pytest.approx({"en": 0.7, "fi": 0.3})
    assert Mixture.of({"el": 3, "fi": 1}).as_dict() == pytest.approx({"el": 0.75, "fi": 0.25})
    assert Mixture.of({"en": 1}).as_dict() == {"en": 1.0}
    assert MIX.as_dict() == pytest.approx({"en": 0.7, "fi": 0.1, "fr": 0.2})
    even = Mixture.of({"en": 1, "fi": 1, "fr": 98}, {"en": 0.5}, "uniform")
    assert even.as_dict() == pytest.approx({"en": 0.5, "fi": 0.25, "fr": 0.25})
    root = Mixture.of({"en": 1, "fi": 4, "fr": 16}, {"en": 0.4}, "data^0.5")
    assert root.as_dict() == pytest.approx({"en": 0.4, "fi": 0.2, "fr": 0.4})
    assert parse_mix("fra_Latn=0.2,pt-BR=0.1") == {"fr-Latn": 0.2, "pt-BR": 0.1}
    given: Any = "fin/a=1, fi/b/c=2"
    assert RunSettings(sources=given).sources == {"fi/a": 1, "fi/b/c": 2}
    with pytest.raises(ValueError, match="'fr' has two shares"):
        parse_mix("fr=0.1,fra=0.2")


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("mix_rest", ["data^2", "data^-1", "data^", "size"], "data, uniform or data^A with A betw"),
        ("sources", ["fi", "fi=1", "fi/x=0", {"fi": 1}, {"fi": {"x": True}}, 3, ""],
         "weights above 0 of sources of a lang"),
        ("mix", ["en", "en=", "en=x", "", "en=0.1,,fi=0.2"], "shares such as"),
        ("sampling", ["sub", "auto", "sub:0", "sub:-1", "all", "", "sub:2 "], f"{REGIMES}, got"),
    ],
)  # fmt: skip
def test_bad_options(name: str, values: list[Any], message: str) -> None:
    for value in values:
        with pytest.raises(UsageError, match=f"^{name}: expected {re.escape(message)}"):
            RunSettings(**{name: value})


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=9), st.floats(0.01, 0.999))
def test_equal_shares_under_a_cap_are_those_of_unimax(sizes: list[int], part: float) -> None:
    """The definition of Chung et al. 2023: the smallest texts first; the budget fits N epochs."""
    names = [f"x-{n}" for n in range(len(sizes))]
    budget, epochs = part * 3 * sum(sizes), 3.0
    expected, left = {}, budget
    for number, (size, name) in enumerate(sorted(zip(sizes, names, strict=True))):
        expected[name] = min(left / (len(sizes) - number), epochs * size)
        left -= expected[name]
    most = {name: epochs * size / budget for name, size in zip(names, sizes, strict=True)}
    found = Mixture.of(dict(zip(names, sizes, strict=True)), {}, "uniform").capped(most, ())
    assert {n: w * budget for n, w in found.as_dict().items()} == pytest.approx(expected)
    assert sum(found.weights) == pytest.approx(1)
    with pytest.raises(
        UsageError, match=r"data.max_epochs: the text of .* is read more often; use"
    ):
        found.capped({name: 0.9 * weight for name, weight in found.as_dict().items()}, ())


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        ({"xx": 0.5}, "there is no text of language"),
        ({"en": 1.0}, "leave a share for fi"),
        ({"en": 0.5, "fi": 0.6}, "sum to"),
        ({"en": 0.5, "fi": 0.4}, "make them sum to 1"),
        ({"en": -0.1}, "got -0.1"),
    ],
)
def test_bad_mixtures(fixed: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Mixture.of({"en": 1, "fi": 1}, fixed)


def test_sub_n_needs_n_further_languages() -> None:
    Regime.parse("sub:2").check(MIX.languages)
    with pytest.raises(UsageError, match="use sub:2 at most"):
        Regime.parse("sub:3").check(MIX.languages)


def test_the_first_draws_are_frozen() -> None:
    """A run resumed under another version must draw the same, by seed, step and group."""
    keys = [(1, 17, 2), (2, 17, 2), (1, 18, 2), (1, 17, 3)]
    assert len({uniforms(*key, 1)[0] for key in keys}) == 4
    regime = Regime.parse("sub:2")
    mixture = Mixture.of({"de": 1, "en": 1, "fi": 1, "fr": 1}, {}, "uniform")
    found = [draw(regime, 0.5, mixture, 0, step, 0) for step in range(4)]
    assert [(d.language, d.languages) for d in found] == FROZEN


@pytest.mark.parametrize(
    ("regime", "p", "own", "whole"),
    [
        ("none", 1.0, 1, 0), ("joint", 0.0, 0, 1), ("full", 0.25, 0.75, 0.25), ("full", 1.0, 0, 1),
        ("full", 0.0, 1, 0), ("sub:2", 0.4, 0.6, 0),
    ],
)  # fmt: skip
def test_languages_and_subtokenizers_come_by_weight(
    regime: str, p: float, own: float, whole: float
) -> None:
    """Shares of draws with the language alone, and with all of T."""
    found = draws(regime, p)
    count = Counter(each.language for each in found)
    for language, weight in MIX.as_dict().items():
        assert count[language] / 4000 == pytest.approx(weight, abs=0.03)
    alone = sum(each.languages == (each.language,) for each in found) / 4000
    assert alone == pytest.approx(own, abs=0.03 * (0 < own < 1))
    every = sum(each.languages is None for each in found) / 4000
    assert every == pytest.approx(whole, abs=0.03 * (0 < whole < 1))


def test_extra_languages_in_proportion_without_replacement() -> None:
    mixture = Mixture.of({"de": 10, "en": 50, "fi": 10, "fr": 30}, {})
    found = draws("sub:2", 1.0, mixture)
    assert all(len(set(d.languages)) == 3 and d.language in d.languages for d in found)
    # For Finnish: en first (5/9) then de or fr, and so on; P(en among the two extra) by hand.
    w = {"de": 10 / 90, "en": 50 / 90, "fr": 30 / 90}
    expected = w["en"] + w["de"] * w["en"] / (1 - w["de"]) + w["fr"] * w["en"] / (1 - w["fr"])
    finnish = [d for d in found if d.language == "fi"]
    share = sum("en" in d.languages for d in finnish) / len(finnish)
    assert share == pytest.approx(expected, abs=0.05)


DRAWS = ("step", "rank", "micro")


def config_of(draw: str, **changes: Any) -> Config:
    given = {"batch_size": 8, "micro_batch": 4, "seq_length": 24, "sampling": "sub:1", **changes}
    return resolve(RunSettings(draw=draw, **given), gpu=False)  # type: ignore[arg-type]


def steps_of(
    config: Config,
    tokenizer: Path,
    subtokenizers: SubtokenizerCache,
    stores: Any,
    count: int,
    replicas: int = 1,
    workers: int = 0,
) -> list[list[Step]]:
    """For each of `count` steps, what each replica works on."""
    plan, share = plan_of(config, tokenizer, stores, replicas), config.batch_size // replicas
    feeds = []
    for replica in range(replicas):
        mine = range(replica * share, (replica + 1) * share)
        stream = BatchStream(plan, mine, first_step=1, last_step=count, workers=workers)
        sequences = config.sequences(replicas)
        feeds.append(Prefetcher(stream, subtokenizers, start_ranks(), sequences))
    return [[feed.step(step) for feed in feeds] for step in range(1, count + 1)]


def sequences(steps: list[list[Step]]) -> list[np.ndarray]:
    """The input ids of each step, all replicas one after the other."""
    return [
        np.concatenate([batch.inputs for step in replicas for batch in step.batches])
        for replicas in steps
    ]


@pytest.mark.parametrize("draw", DRAWS)
def test_what_shares_a_draw(
    draw: str, tokenizer: Path, subtokenizers: SubtokenizerCache, stores: Any
) -> None:
    steps = steps_of(config_of(draw), tokenizer, subtokenizers, stores, 12, replicas=2)
    per_step = [{batch.draw for step in replicas for batch in step.batches} for replicas in steps]
    per_rank = [{batch.draw for batch in step.batches} for replicas in steps for step in replicas]
    assert all(len(step.batches) == 1 for replicas in steps for step in replicas)
    if draw == "step":
        assert all(len(draws) == 1 for draws in per_step)
    else:
        assert any(len(draws) == 2 for draws in per_step)
    assert all(len(draws) == 1 for draws in per_rank)


def test_a_process_of_a_pool_makes_batches_itself(
    tokenizer: Path, subtokenizers: SubtokenizerCache, stores: Any, monkeypatch: Any
) -> None:
    """It is daemonic and may start no process."""
    config = config_of("step")
    expected = sequences(steps_of(config, tokenizer, subtokenizers, stores, 2))
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    made = sequences(steps_of(config, tokenizer, subtokenizers, stores, 2, workers=2))
    for one, other in zip(expected, made, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("draw", ["step", "micro"])
def test_batches_do_not_depend_on_ranks(
    draw: str, tokenizer: Path, subtokenizers: SubtokenizerCache, stores: Any
) -> None:
    config = config_of(draw)
    alone = sequences(steps_of(config, tokenizer, subtokenizers, stores, 5))
    for replicas in (2, 4, 8):
        steps = steps_of(config, tokenizer, subtokenizers, stores, 5, replicas)
        for one, other in zip(alone, sequences(steps), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_microbatch_larger_than_a_ranks_share_is_split(
    tokenizer: Path, subtokenizers: SubtokenizerCache, stores: Any
) -> None:
    config = config_of("micro", micro_batch=8)
    steps = steps_of(config, tokenizer, subtokenizers, stores, 2, replicas=4)
    assert [len(batch.inputs) for step in steps[0] for batch in step.batches] == [2] * 4
    assert len({batch.draw for step in steps[0] for batch in step.batches}) == 1
    assert config_of("step", batch_size=64, micro_batch=64).sequences(8) == 8


def test_draws_of_ranks_need_their_number(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretrain(replace(settings, draw="rank", steps=2))
    assert len(read_metrics(settings.runs / "it")) == 3
    whole = prepare.start_ranks

    def two(shards: int) -> Any:
        return replace(whole(shards), replicas=2)

    monkeypatch.setattr(prepare, "start_ranks", two)
    with pytest.raises(UsageError, match=r"--gpus: the run has 1 replicas, and draw = rank"):
        pretrain(RunSettings(runs=settings.runs, steps=3), resume=True)
