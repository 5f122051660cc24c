"""Means over tasks and languages, with intervals, and tests of differences.

Systems with several seeds have Student's interval over the means of their runs, and differences are
tested over seeds. One run has a bootstrap interval over examples, and differences are tested
by paired bootstrap as by `modtok eval compare`.

A measure is what is averaged: "mcq" (the accuracy of a task under its normalization), "mt BLEU",
"mt chrF++", "mt in language", "sum rougeL", …, "bpb".
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from modtok_cli.base.arrays import Float64Array
from modtok_cli.base.files import write_lines
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.signature import digest, signature
from modtok_cli.evaluate.compare import BITS, drawn_metrics, p_value
from modtok_cli.evaluate.grid.cells import Row, Store
from modtok_cli.evaluate.grid.grid import GridResult, rows_of
from modtok_cli.evaluate.results import BPB, MCQ, RESAMPLES, SEED, interval, student_interval

Set = tuple[str, str]
"""Language or pair, and task."""


@dataclass(frozen=True)
class Score:
    """One score of one cell.

    Attributes:
        run: of one system, different for each seed.
        mode: inference mode; "N languages" for a random set.
        key: of the cell; `metric` is the score's name in it.
    """

    measure: str
    system: str
    run: str
    mode: str
    drawn: int
    language: str
    task: str
    value: float
    n: int
    key: str
    metric: str
    labels: Mapping[str, Any]

    @property
    def set(self) -> Set:
        """What the score is of."""
        return self.language, self.task


def scores_of(result: GridResult) -> list[Score]:
    """All scores, in the order of the grid."""
    scores = []
    for planned in result.done:
        kind, run = planned.cell.kind, planned.run
        own: set[str] = set()
        for row in rows_of(planned, result.store):
            measure = kind if kind in (MCQ, BPB) else f"{kind} {row['metric']}"
            if kind == MCQ and own:
                continue  # further metrics of a task of lm-eval
            own.add(measure)
            scores.append(
                Score(
                    measure,
                    run.name,
                    f"{run.place.path}@{run.place.step}",
                    f"{planned.drawn} languages" if planned.drawn else str(row["infer"]),
                    planned.drawn,
                    str(row["language"]),
                    str(row.get("text", row.get("task"))),
                    float(row["bits_per_byte"] if kind == BPB else row["value"]),
                    int(row["documents"] if kind == BPB else row["n"]),
                    planned.cell.key,
                    str(row.get("metric", BITS)),
                    run.labels,
                )
            )
    return scores


class Resamples:
    """Bootstrap resamples of cells, computed once.

    They depend on the number of examples and on a fixed seed only, so that those of two cells with
    the same examples are paired.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[str, dict[str, Float64Array]]] = {}

    def of(self, score: Score) -> Float64Array:
        """Values of the score over resamples; (resamples,)."""
        return self._cell(score.key)[1][f"{score.language} {score.metric}"]

    def examples(self, score: Score) -> str:
        """Digest of the names of its examples."""
        return self._cell(score.key)[0]

    def _cell(self, key: str) -> tuple[str, dict[str, Float64Array]]:
        if key not in self._known:
            examples = self._store.examples(key)
            names = digest(*(f"{row['language']} {row['id']}".encode() for row in examples))
            self._known[key] = names, _resampled(examples)
        return self._known[key]


def _resampled(examples: Sequence[Row]) -> dict[str, Float64Array]:
    draws: dict[str, Float64Array] = {}
    for language in dict.fromkeys(str(row["language"]) for row in examples):
        rows = [row for row in examples if row["language"] == language]
        for name, drawn in drawn_metrics((rows[0]["task"], language), [rows]).items():
            draws[f"{language} {name}"] = drawn.draws[:, 0]
    return draws


def mean_over(
    scores: Sequence[Score], value: Callable[[Score], Any], sets: frozenset[Set] | None = None
) -> Any:
    """Mean over runs, in each over languages, in each over tasks, in each over random sets.

    `value` gives a number or an array of each score; `sets` are those that count.
    """

    def mean(group: Sequence[Score], keys: Sequence[Callable[[Score], Any]]) -> Any:
        if not keys:
            return sum(value(score) for score in group) / len(group)
        parts: dict[Any, list[Score]] = {}
        for score in group:
            parts.setdefault(keys[0](score), []).append(score)
        return sum(mean(part, keys[1:]) for part in parts.values()) / len(parts)

    chosen = [score for score in scores if sets is None or score.set in sets]
    return mean(chosen, [lambda s: s.run, lambda s: s.language, lambda s: s.task])


def by_run(scores: Sequence[Score]) -> dict[str, list[Score]]:
    """The scores of each run."""
    runs: dict[str, list[Score]] = {}
    for score in scores:
        runs.setdefault(score.run, []).append(score)
    return runs


def common_sets(groups: Sequence[Sequence[Score]]) -> frozenset[Set]:
    """The languages and tasks that every run of every group has a score of."""
    present = [
        frozenset(score.set for score in run) for group in groups for run in by_run(group).values()
    ]
    return frozenset.intersection(*present) if present else frozenset()


MEANS, TESTS = "means.jsonl", "tests.jsonl"
MEAN = "mean"
SEEDS, EXAMPLES = "seeds", "examples"
_COVERED = 0.95
Group = tuple[str, str]
"""System and mode."""


@dataclass(frozen=True)
class Summary:
    """Means and tests as rows, see `means_of` and `differences_of`."""

    means: list[Row]
    tests: list[Row]


def summarize(result: GridResult, output: Path, progress: Progress = SILENT) -> Summary:
    """Means and tests of a grid; written to `means.jsonl` and `tests.jsonl` of `output`.

    They are read from there if they are those of the same cells.
    """
    cells = [
        f"{planned.cell.key} {planned.run.place.path} {planned.run.name} {planned.drawn}"
        for planned in result.done
    ]
    grid = digest(*(cell.encode() for cell in cells))
    known = [_read(output / name, grid) for name in (MEANS, TESTS)]
    if known[0] is not None and known[1] is not None:
        return Summary(known[0], known[1])
    scores = scores_of(result)
    resamples = Resamples(result.store)
    summary = Summary(
        list(means_of(scores, resamples, progress)),
        list(differences_of(scores, resamples, progress)),
    )
    for name, rows in ((MEANS, summary.means), (TESTS, summary.tests)):
        for row in rows:
            row["grid"] = grid
            fields = {key: row[key] for key in ("measure", "by", "grid")}
            kind = f"grid-{name.partition('.')[0]}"
            row["signature"] = signature(kind, **fields, bootstrap=RESAMPLES, seed=SEED)
        write_lines(output / name, rows)
    return summary


def _read(path: Path, grid: str) -> list[Row] | None:
    """Rows of an earlier call for the same cells; None if there are none."""
    try:
        rows = [orjson.loads(line) for line in path.read_bytes().splitlines()]
        return rows if rows and all(row["grid"] == grid for row in rows) else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _groups(scores: Sequence[Score]) -> dict[str, dict[Group, list[Score]]]:
    groups: dict[str, dict[Group, list[Score]]] = {}
    for score in scores:
        group = groups.setdefault(score.measure, {})
        group.setdefault((score.system, score.mode), []).append(score)
    return groups


def means_of(
    scores: Sequence[Score], resamples: Resamples, progress: Progress = SILENT
) -> Iterator[Row]:
    """A row for each measure, system, mode and language, and for the mean over languages.

    That mean is over the languages and tasks that all systems and modes of the measure have, if
    there are some: a mean of each language over its tasks, and of these.

    Yields:
        measure, system, infer, language; value with its 95% interval (low, high), by "seeds" or
        "examples"; runs, languages, tasks, n; spread, the mean over languages of the standard
        deviation over random sets of languages (None without such sets).
    """
    groups = _groups(scores)
    with progress.task("means", sum(map(len, groups.values())), "means") as task:
        for measure, by_group in groups.items():
            common = common_sets(list(by_group.values()))
            for (system, mode), group in by_group.items():
                task.advance()
                fixed = {"measure": measure, "system": system, "infer": mode}
                for language in dict.fromkeys(score.language for score in group):
                    own = [score for score in group if score.language == language]
                    yield {**fixed, "language": language, **_mean(own, None, resamples)}
                yield {**fixed, "language": MEAN, **_mean(group, common or None, resamples)}


def _mean(
    group: Sequence[Score], sets: frozenset[Set] | None, resamples: Resamples
) -> dict[str, Any]:
    chosen = [score for score in group if sets is None or score.set in sets]
    runs = by_run(chosen)
    labels = chosen[0].labels
    if len(runs) > 1:
        values = [float(mean_over(run, lambda score: score.value)) for run in runs.values()]
        value, (low, high), by = float(np.mean(values)), student_interval(values), SEEDS
    else:
        value = float(mean_over(chosen, lambda score: score.value))
        (low, high), by = interval(mean_over(chosen, resamples.of)), EXAMPLES
    return {
        "value": value,
        "low": low,
        "high": high,
        "by": by,
        "runs": len(runs),
        "languages": len({score.language for score in chosen}),
        "tasks": len({score.task for score in chosen}),
        "n": sum(score.n for score in next(iter(runs.values()))),
        "drawn": chosen[0].drawn,
        "spread": _spread(chosen),
        "sampling": labels.get("sampling"),
        "p": labels.get("p"),
        "step": labels.get("step"),
    }


def _spread(scores: Sequence[Score]) -> float | None:
    """Mean over runs, languages and tasks of the standard deviation over random sets."""
    parts: dict[Any, list[float]] = {}
    for score in scores:
        if score.drawn:
            parts.setdefault((score.run, score.set), []).append(score.value)
    spreads = [float(np.std(values, ddof=1)) for values in parts.values() if len(values) > 1]
    return sum(spreads) / len(spreads) if spreads else None


def differences_of(
    scores: Sequence[Score], resamples: Resamples, progress: Progress = SILENT
) -> Iterator[Row]:
    """Differences of two modes of a system, and of two systems under one mode, of each measure.

    The means are over the languages and tasks that both have. Modes with random sets of languages
    are left out, and so are pairs with other examples.

    Yields:
        measure, system_a, infer_a, system_b, infer_b; a, b, difference (b - a) with its 95%
        interval (low, high) and p; by: "seeds" (paired if both have the same seeds, else Welch's
        test) or "examples" (paired bootstrap, for these very models); paired; runs.
    """
    groups = {
        measure: {key: group for key, group in by_group.items() if not group[0].drawn}
        for measure, by_group in _groups(scores).items()
    }
    pairs = [
        (measure, one, other)
        for measure, by_group in groups.items()
        for one, other in combinations(by_group, 2)
        if (one[0] == other[0]) != (one[1] == other[1])
    ]
    with progress.task("tests", len(pairs), "tests") as task:
        for measure, one, other in pairs:
            task.advance()
            test = _test(groups[measure][one], groups[measure][other], resamples)
            if test is not None:
                yield {
                    "measure": measure,
                    "system_a": one[0],
                    "infer_a": one[1],
                    "system_b": other[0],
                    "infer_b": other[1],
                    **test,
                }


def _test(
    one: Sequence[Score], other: Sequence[Score], resamples: Resamples
) -> dict[str, Any] | None:
    sets = common_sets([one, other])
    if not sets:
        return None
    one, other = ([score for score in group if score.set in sets] for group in (one, other))
    fixed: dict[str, Any] = {
        "languages": len({language for language, _ in sets}),
        "tasks": len({task for _, task in sets}),
        "runs": min(len(by_run(one)), len(by_run(other))),
    }
    means = [_values(group) for group in (one, other)]
    a, b = (float(np.mean(list(values.values()))) for values in means)
    fixed |= {"a": a, "b": b, "difference": b - a}
    if fixed["runs"] > 1:
        return {**fixed, **_over_seeds(*means)}
    if {(s.set, resamples.examples(s)) for s in one} != {
        (s.set, resamples.examples(s)) for s in other
    }:
        return None
    draws = mean_over(other, resamples.of) - mean_over(one, resamples.of)
    low, high = interval(draws)
    p = p_value(draws, b - a)
    return {**fixed, "low": low, "high": high, "p": p, "by": EXAMPLES, "paired": True}


def _values(group: Sequence[Score]) -> dict[Any, float]:
    """Mean of each run, by its seed if no two have the same."""
    runs = by_run(group)
    seeds = {name: run[0].labels.get("seed") for name, run in runs.items()}
    unique = None not in seeds.values() and len(set(seeds.values())) == len(seeds)
    return {
        seeds[name] if unique else name: float(mean_over(run, lambda score: score.value))
        for name, run in runs.items()
    }


def _over_seeds(one: dict[Any, float], other: dict[Any, float]) -> dict[str, Any]:
    """Interval and p of the difference of means over two or more runs each."""
    from scipy.stats import ttest_ind, ttest_rel

    paired = set(one) == set(other)
    if paired:
        values = np.array([[other[seed], one[seed]] for seed in one])
        steady = bool(np.ptp(values[:, 0] - values[:, 1]) == 0)
        result = None if steady else ttest_rel(values[:, 0], values[:, 1])
    else:
        steady = len({*one.values()}) == len({*other.values()}) == 1
        first, second = list(other.values()), list(one.values())
        result = None if steady else ttest_ind(first, second, equal_var=False)
    if result is None:  # no variance: the test has nothing to go by
        low = high = float(np.mean(list(other.values())) - np.mean(list(one.values())))
        p = 1.0 if low == 0 else None
    else:
        low, high = map(float, result.confidence_interval(_COVERED))
        p = None if isnan(result.pvalue) else float(result.pvalue)
    return {"low": low, "high": high, "p": p, "by": SEEDS, "paired": paired}
