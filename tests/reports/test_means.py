"""Means over tasks, languages, seeds and sets of languages, by hand and against scipy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from modtok_cli.reports.kinds.evaluation import evaluation_finding
from modtok_cli.reports.means import charts, differences_of, means_of, scores_of, tables


def row(
    value: float, *, recipe: str = "a", seed: int | None = 0, task: str = "facts",
    language: str = "fr", infer: str = "lang", metric: str = "acc", **more: Any,
) -> dict[str, Any]:  # fmt: skip
    return {
        "task": task, "language": language, "metric": metric, "value": value, "low": None,
        "high": None, "n": 4, "shots": 0, "infer": infer, "run": f"{recipe}-{seed}",
        "checkpoint": f"{recipe}-{seed}@9/x", "seed": seed, "sampling": f"sub:{recipe}", "p": 0.5,
        "step": 9, "recipe": recipe, "signature": "", **more,
    }  # fmt: skip


def mean(rows: list[dict[str, Any]], measure: str = "mcq", mode: str = "lang") -> dict[str, Any]:
    return dict(means_of(scores_of(rows))[measure]["sub:a", mode])


def test_means_are_of_tasks_then_of_languages() -> None:
    rows = [row(10, task="one"), row(20, task="two"), row(40, language="fi", task="one")]
    rows += [row(99, task="mean"), row(77, task="one", metric="f1")]  # neither counts
    assert mean(rows)["value"] == pytest.approx((15 + 40) / 2)
    assert (mean(rows)["languages"], mean(rows)["low"]) == (2, None)
    declared = {"higher_is_better": False, "scale": 1}  # no accuracy
    rows.append(row(9000, task="surprise", metric="perplexity", **declared))
    assert mean(rows)["value"] == pytest.approx((15 + 40) / 2)
    rows.append(row(8000, recipe="b", task="surprise", metric="perplexity", **declared))
    assert "surprise perplexity 8000.0 (b-0@9 --infer lang; highest in" in evaluation_finding(rows)
    translated = [row(3, task="mt", metric="BLEU"), row(50, task="mt", metric="chrF++")]
    assert set(means_of(scores_of(translated))) == {"mt BLEU", "mt chrF++"}
    bits = [{**row(0), "text": "a.txt", "bits_per_byte": each} for each in (2.0, 1.5, None)]
    for each in bits:
        del each["task"], each["metric"]
    assert mean(bits, "bpb")["value"] == 1.5  # the last one of a text that has bits


def test_means_are_over_what_all_systems_have() -> None:
    rows = [row(10), row(90, language="fi"), row(20, recipe="b")]
    means = means_of(scores_of(rows))["mcq"]
    assert means["sub:a", "lang"]["value"] == 10
    assert means["sub:b", "lang"]["value"] == 20


def test_sets_of_languages_of_one_size_are_one_mode() -> None:
    modes = {"en,fr": 10.0, "fi,fr": 14.0, "en,fi,fr": 20.0, "lang": 9.0}
    rows = [row(value, infer=mode) for mode, value in modes.items()]
    found = means_of(scores_of(rows))["mcq"]
    assert {mode for _, mode in found} == {"2 languages", "en,fi,fr", "lang"}
    pair = found["sub:a", "2 languages"]
    assert (pair["value"], pair["spread"]) == (12.0, pytest.approx(np.std([10, 14], ddof=1)))
    assert found["sub:a", "lang"]["spread"] is None
    assert "12.0 ± 2.8" in tables(rows)[0].rows[0]


def test_differences_over_seeds() -> None:
    one, other = [10.0, 12.0, 17.0], [11.0, 14.0, 18.5]
    rows = [row(value, seed=seed) for seed, value in enumerate(one)]
    interval = stats.t.interval(0.95, 2, np.mean(one), stats.sem(one))
    assert (mean(rows)["low"], mean(rows)["high"]) == pytest.approx(interval)
    paired = [row(value, seed=seed, recipe="b") for seed, value in enumerate(other)]
    (found,) = differences_of(scores_of(rows + paired))
    expected = stats.ttest_rel(other, one)
    assert (found["a"], found["b"], found["runs"]) == (13.0, 14.5, 3)
    assert found["p"] == pytest.approx(expected.pvalue)
    assert (found["low"], found["high"]) == pytest.approx(tuple(expected.confidence_interval()))
    unpaired = [row(value, seed=seed, recipe="b") for seed, value in enumerate(other, 1)]
    (found,) = differences_of(scores_of(rows + unpaired))
    assert found["p"] == pytest.approx(stats.ttest_ind(other, one, equal_var=False).pvalue)
    steady = [row(value + 1, seed=seed, recipe="b") for seed, value in enumerate(one)]
    (found,) = differences_of(scores_of(rows + steady))
    assert (found["difference"], found["p"]) == (1.0, None)
    (found,) = differences_of(scores_of(rows + [{**each, "recipe": "b", "sampling": "sub:b",
                                                 "checkpoint": f"b{n}"}
                                                for n, each in enumerate(rows)]))  # fmt: skip
    assert found["p"] == 1.0
    # Another mode of another system is no difference of one thing; a single run has no test.
    others = [{**each, "infer": "full"} for each in paired]
    assert not list(differences_of(scores_of(rows + others)))
    assert not list(differences_of(scores_of([*rows, paired[0]])))


def test_systems_have_names_that_differ() -> None:
    rows = [
        row(1, recipe="a", sampling="sub:1", p=0.2), row(2, recipe="b", sampling="sub:1", p=0.5),
        row(3, recipe="c", sampling="sub:1", p=0.5, step=20), row(4, recipe="d", sampling=None),
        row(5, recipe="e", sampling="sub:2"), row(6, recipe="f", sampling="sub:2"),
    ]  # fmt: skip
    names = [score.system for score in scores_of(rows)]
    assert names == ["sub:1 p=0.2", "sub:1 p=0.5 step=9", "sub:1 p=0.5 step=20", "d-0",
                     "sub:2 run=e-0", "sub:2 run=f-0"]  # fmt: skip
    titles = [table.caption for table in tables(rows)]
    assert titles == [
        "Multiple choice, accuracy: mean over 1 language", "Scores by language", "Scores over p",
    ]  # fmt: skip


def test_rows_without_seeds_or_of_other_programs_have_no_means() -> None:
    rows = [row(10 + seed, seed=seed, recipe=name) for name in "ab" for seed in range(3)]
    (chart,) = charts(rows)
    assert chart.title == "Multiple choice, accuracy: means"
    assert not tables(rows[:1])
    assert not charts(rows[:3])  # of one system
    assert not tables([{key: each[key] for key in each if key != "recipe"} for each in rows])
