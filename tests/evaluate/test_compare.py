"""Paired bootstrap: against the plain way of drawing, on systems that differ and that do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from helpers.said import Said
from helpers.sample import SAMPLE
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_lines
from modtok_cli.evaluate.compare import compare, summary, verdict
from modtok_cli.evaluate.evaluate import evaluate_bpb, evaluate_mcq, evaluate_mt, evaluate_sum
from modtok_cli.evaluate.results import (
    SEED,
    example,
    mean_interval,
    read_examples,
)
from modtok_cli.evaluate.significance import holm, mcnemar

RESAMPLES = 500
TASKS = SAMPLE / "tasks"
REFERENCES = [f"the {word} cat sat on mat {n}" for n in range(8) for word in ("old", "new", "red")]


def questions(path: Path, right: list[int], language: str = "en", **more: Any) -> Path:
    rows = [
        example("arc", language, str(i), {"acc": float(value), "acc_norm": 1.0}, gold=i % 4, **more)
        for i, value in enumerate(right)
    ]
    write_lines(path, rows)
    return path


def translations(path: Path, damage: int) -> Path:
    rows = []
    for i, reference in enumerate(REFERENCES):
        words = reference.split()
        output = " ".join(words[: len(words) - (damage if i % 2 else 0)])
        scores = {"in language": float(i % 3 > 0)}
        rows.append(example("mt", "fr-en", str(i), scores, reference=reference, output=output))
    write_lines(path, rows if damage else rows[::-1])  # in another order
    return path


def draws(count: int) -> list[np.ndarray]:
    """The plain way: lists of the examples drawn."""
    generator = np.random.default_rng(SEED)
    return [generator.integers(0, count, count) for _ in range(RESAMPLES)]


def test_accuracy_is_compared_on_the_same_resamples(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    first = generator.integers(0, 2, 60).tolist()
    second = [value if i % 3 else 1 for i, value in enumerate(first)]
    files = [questions(tmp_path / name, right) for name, right in (("a", first), ("b", second))]
    row = next(row for row in compare(*files, resamples=RESAMPLES) if row["metric"] == "acc")
    a, b = np.array(first), np.array(second)
    differences = np.array([100 * (b[places] - a[places]).mean() for places in draws(60)])
    assert row["a"] == pytest.approx(100 * a.mean())
    assert row["difference"] == pytest.approx(100 * (b - a).mean())
    assert (row["low"], row["high"]) == pytest.approx(
        tuple(np.percentile(differences, [2.5, 97.5]))
    )
    only = [int((a > b).sum()), int((b > a).sum())]
    assert row["p"] == pytest.approx(binomtest(only[0], sum(only)).pvalue, rel=1e-12)
    assert row["test"] == "McNemar"
    assert row["low"] > 0
    assert row["p"] < 0.05
    back = next(row for row in compare(*files[::-1]) if row["metric"] == "acc")
    assert back["difference"] == -row["difference"]
    assert back["p"] == row["p"]


@given(st.integers(0, 400), st.integers(0, 400))
def test_mcnemar_is_the_binomial_test_of_scipy(first: int, second: int) -> None:
    expected = binomtest(first, first + second).pvalue if first + second else 1.0
    assert mcnemar(first, second) == pytest.approx(expected, rel=1e-9)


def test_holm_of_a_published_example() -> None:
    """p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm") of R."""
    assert holm([0.03, 0.01, None, 0.05, 0.02, 0.04]) == pytest.approx(
        [0.09, 0.05, None, 0.09, 0.08, 0.09]
    )


def test_bits_per_byte_are_those_of_the_resampled_text(tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    sizes, bits = generator.integers(1, 90, 40), generator.uniform(50, 99, (2, 40))
    for name, of in zip("ab", bits, strict=True):
        rows = [
            example("bpb", "fi", str(i), {}, bits=float(each), bytes=int(size))
            for i, (each, size) in enumerate(zip(of, sizes, strict=True))
        ]
        write_lines(tmp_path / name, rows)
    (row,) = compare(tmp_path / "a", tmp_path / "b", resamples=RESAMPLES)
    values = np.array([(bits[:, at].sum(1) / sizes[at].sum()) for at in draws(40)])
    differences = values[:, 1] - values[:, 0]
    assert [row["a"], row["b"]] == pytest.approx((bits.sum(1) / sizes.sum()).tolist())
    assert [row["low"], row["high"]] == pytest.approx(np.percentile(differences, [2.5, 97.5]))
    far = np.abs(differences - row["difference"]) >= abs(row["difference"])
    assert row["p"] == pytest.approx((far.sum() + 1) / (RESAMPLES + 1))
    assert row["verdict"] == verdict(row["difference"], row["p"], False)


def test_bleu_and_chrf_of_resampled_sentences(tmp_path: Path) -> None:
    files = [translations(tmp_path / "a", 2), translations(tmp_path / "b", 0)]
    rows = {row["metric"]: row for row in compare(*files, resamples=RESAMPLES)}
    assert list(rows) == ["BLEU", "chrF++", "in language"]
    assert [row["p_holm"] for row in rows.values()] == holm([row["p"] for row in rows.values()])
    assert summary([*rows.values()]).endswith("A in 0; after Holm's correction in 2 and 0")
    outputs = [{row["id"]: row["output"] for row in read_examples(file)} for file in files]
    texts = [[each[str(i)] for i in range(len(REFERENCES))] for each in outputs]
    for name, metric in (("BLEU", sacrebleu.BLEU()), ("chrF++", sacrebleu.CHRF(word_order=2))):
        whole = [metric.corpus_score(side, [REFERENCES]).score for side in texts]
        assert [rows[name]["a"], rows[name]["b"]] == pytest.approx(whole, abs=1e-9)
        differences = []
        for places in draws(len(REFERENCES))[:40]:
            refs = [REFERENCES[i] for i in places]
            a, b = (metric.corpus_score([side[i] for i in places], [refs]) for side in texts)
            differences.append(b.score - a.score)
        assert rows[name]["low"] <= np.median(differences) <= rows[name]["high"]
        assert rows[name]["p"] == pytest.approx(1 / (RESAMPLES + 1))
    assert rows["in language"]["p"] == 1


def test_languages_have_a_mean(tmp_path: Path) -> None:
    for name, flip in (("a", 0), ("b", 1)):
        rows: list[Any] = []
        for language, right in (("en", [1, 0, 1]), ("fi", [0, 0, 1, 1])):
            file = questions(tmp_path / "part", [value ^ flip for value in right], language)
            rows += read_examples(file)
        rows.append(example("other", "en", "8", {"acc": flip}))  # no part of the mean
        write_lines(tmp_path / name, rows)
    rows = [row for row in compare(tmp_path / "a", tmp_path / "b") if row["metric"] == "acc"]
    rows = [row for row in rows if row["task"] != "other"]
    assert [row["language"] for row in rows] == ["en", "fi", "mean"]
    assert rows[2]["a"] == pytest.approx((rows[0]["a"] + rows[1]["a"]) / 2)
    assert rows[2]["n"] == 7


def test_a_model_and_a_file_are_not_compared(few_steps: Path, tmp_path: Path) -> None:
    file = questions(tmp_path / "a", [0, 1])
    for sides in ((few_steps, file), (file, few_steps)):
        with pytest.raises(UsageError, match=r"is a model, and the other is a file; pass two"):
            compare(*sides, tasks="facts")
    for sides in ((few_steps, tmp_path / "b"), (tmp_path / "b", few_steps)):
        with pytest.raises(UsageError, match=r"/b: does not exist"):
            compare(*sides, tasks="facts")


def test_a_metric_that_examples_do_not_give_has_no_p(tmp_path: Path) -> None:
    """Its value stands in the rows: of all examples of a task, by a function of the task."""
    said = Said()
    for name, value in (("a", 0.25), ("b", 0.5)):
        metrics = {"ter": {"aggregation": "ter", "higher_is_better": False, "scale": 1}}
        metrics["ter"]["value"] = value
        rows = [example("t", "en", str(i), {"ter": 0.1}, metrics=metrics) for i in range(3)]
        write_lines(tmp_path / name, rows)
    (row,) = compare(tmp_path / "a", tmp_path / "b", progress=said)
    assert (row["a"], row["b"], row["p"], row["low"], row["test"]) == (0.25, 0.5, *[None] * 3)
    assert row["verdict"] == "not tested"
    assert "t en: ter (ter) does not follow from its examples" in said.notes[0]


def test_comparing_different_examples_is_an_error(tmp_path: Path) -> None:
    file = questions(tmp_path / "a", [0, 1, 1])
    more = questions(tmp_path / "b", [0, 1, 1, 0])
    with pytest.raises(ModtokError, match=r"a: has no example 3 of arc en, .* \(1 missing\)"):
        compare(file, more)
    with pytest.raises(ModtokError, match="c: has no example 0 of arc en"):
        compare(file, questions(tmp_path / "c", [0, 1, 1], "fi"))
    rows = read_examples(file)
    write_lines(tmp_path / "e", [{**rows[0], "scores": {"f1": 1.0}}, *rows[1:]])
    with pytest.raises(ModtokError, match="example 0 of arc en has other metrics"):
        compare(file, tmp_path / "e")
    write_lines(tmp_path / "e", [{**rows[0], "scores": {"acc": 1.0}}, *rows[1:]])
    (row,) = compare(file, tmp_path / "e", progress=(said := Said()))
    assert row["metric"] == "acc"
    assert said.notes == ["arc en: acc_norm: not in every example of both, and not compared"]
    write_lines(tmp_path / "f", [*rows, rows[0]])
    with pytest.raises(ModtokError, match="contains example 0 of arc en twice"):
        compare(tmp_path / "f", file)


def examples_of(few_steps: Path) -> Iterator[dict[str, Any]]:
    """An example of each kind of task, as it is evaluated."""
    short = {"limit": 1, "shots": 0}
    yield evaluate_mcq(few_steps, "fr", tasks="facts", data=TASKS, **short).examples[0]
    yield evaluate_mt(few_steps, "en-fr", data=TASKS, max_tokens=1, **short).examples[0]
    yield evaluate_sum(few_steps, "fr", data=TASKS, max_tokens=1, **short).examples[0]
    yield evaluate_bpb(few_steps, SAMPLE / "parallel" / "fr.txt", limit=1).examples[0]


def test_whatever_describes_an_example_must_be_equal(few_steps: Path, tmp_path: Path) -> None:
    """All fields but those that a system gives it: what it answers and how it was asked."""
    described = []
    for row in examples_of(few_steps):
        write_lines(tmp_path / "a", [row])
        for name in set(row) - {"task", "language", "id", "scores"}:
            other = {"text": "x", "number": 3}["text" if isinstance(row[name], str) else "number"]
            write_lines(tmp_path / "b", [{**row, name: other}])
            try:
                compare(tmp_path / "a", tmp_path / "b")
            except ModtokError as error:
                described.append(f"{row['task']} {error.what.partition(' of example')[0]}")
    assert sorted(described) == [
        "bpb bytes", "bpb source", "facts answer", "facts choices", "facts question",
        "mt lowercase", "mt reference", "mt source", "sum reference",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b"{}", b'{"task": "a", "language": "b", "id": 1, "scores": {}}',
     b'{"task": "a", "language": "b", "id": "1", "scores": {"acc": "x"}}',
     b'{"task": "a", "language": "b", "id": "1", "scores": {"acc": 1e308}}',
     b'{"task": "a", "language": "b", "id": "1", "scores": {}, "output": 3}'],
)  # fmt: skip
def test_invalid_example_names_its_line(tmp_path: Path, line: bytes) -> None:
    good = json.dumps(example("a", "b", "1", {"acc": 1.0})).encode()
    path = tmp_path / "x.jsonl"
    path.write_bytes(good + b"\n\n" + line + b"\n")
    with pytest.raises(ModtokError, match=r"x\.jsonl:3: "):
        read_examples(path)
    path.write_bytes(b"\n")
    with pytest.raises(ModtokError, match="contains no examples"):
        read_examples(path)
    with pytest.raises(ModtokError, match="does not exist"):
        read_examples(tmp_path / "nowhere")


@pytest.mark.parametrize(("successes", "n", "low", "high"), [
    (0, 30, 0.0, 11.35), (30, 30, 88.65, 100.0), (5, 10, 23.66, 76.34), (1, 20, 0.89, 23.61),
])  # fmt: skip
def test_intervals_of_proportions_are_wilson(
    successes: int, n: int, low: float, high: float
) -> None:
    """Values of a table of the Wilson score interval; 0 of 30 is not a certain 0."""
    values = [1.0] * successes + [0.0] * (n - successes)
    assert mean_interval(values) == pytest.approx((low, high), abs=0.005)


def test_intervals_of_graded_scores_are_bootstrapped() -> None:
    low, high = mean_interval([0.2, 0.4, 0.6, 0.8] * 5)
    assert 40 < low < 50 < high < 60
