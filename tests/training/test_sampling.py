"""Mixtures, regimes of sampling, draws, and what shares a draw: a step, a microbatch."""

from __future__ import annotations

import multiprocessing
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.microbatches import plan_of
from modtok_cli.base.errors import UsageError
from modtok_cli.training.data.sampling import REGIMES, Mixture, Regime, parse_mix
from modtok_cli.training.data.stream import BatchStream
from modtok_cli.training.resolve import resolve
from modtok_cli.training.settings import RunSettings

MIX = Mixture.of({"en": 700, "fi": 100, "fr": 200}, {"en": 0.7})


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
    assert RunSettings(sources=given)["sources"] == {"fi/a": 1, "fi/b/c": 2}
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
        MIX.capped({"en": 0.6, "fi": 1.0, "fr": 1.0}, ("en",))  # a share that is given
    with pytest.raises(UsageError, match=r"the text of .* is read more often; use"):
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


@pytest.mark.parametrize(("draw", "size"), [("step", 8), ("micro", 4)])
def test_what_shares_a_draw_and_a_forward_pass(draw: Any, size: int) -> None:
    config = resolve(RunSettings(draw=draw, batch_size=8, micro_batch=4), gpu=False)
    assert config.group_size == size
    assert [config.sequences(replicas) for replicas in (1, 2, 4, 8)] == [4, 4, 2, 1]


def test_a_process_of_a_pool_makes_batches_itself(
    tokenizer: Path, stores: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is daemonic and may start no process."""
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    plan = plan_of(resolve(RunSettings(), gpu=False), tokenizer, stores)
    made = BatchStream(plan, range(2), first_step=1, last_step=2, workers=2)
    assert (made._workers, len(made._packers)) == ([], 2)
