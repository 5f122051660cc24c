"""Means of evaluations over tasks, languages and sets of languages, by system and seed.

Runs of one recipe, which differ in their seed only, are one system. With several seeds a mean has
Student's 95% interval over the means of its runs, and differences are tested over seeds: this
speaks about a training regime. `modtok eval compare` tests two models on their examples.

A measure is what is averaged: "mcq" (the accuracy of a task under its normalization), "mt BLEU",
"sum rougeL", …, "bpb". A mean is over the tasks of a language, then over languages, and over those
languages and tasks that all systems and modes of the measure have, so that none looks better for
what it lacks. Modes of several sets of as many languages are one: "4 languages".
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isnan
from statistics import fmean, stdev
from typing import Any

from modtok_cli.base.extras import is_installed
from modtok_cli.reports.charts import Chart, Dots, Mark
from modtok_cli.reports.tables import Form, Row, Table, cell, grouped, marks_of, with_interval

_COVERED = 0.95
_TITLES = {
    "mcq": "Multiple choice, accuracy",
    "mt BLEU": "Translation, BLEU",
    "sum rougeL": "Summaries, ROUGE-L",
    "bpb": "Bits per byte",
}
_SHORT = {"mcq": "MCQ", "mt BLEU": "MT", "sum rougeL": "ROUGE-L", "bpb": "bits/byte"}
Group = tuple[str, str]
"""System and mode."""


@dataclass(frozen=True)
class Score:
    """One score of one model.

    Attributes:
        run: of one system, different for each seed.
        set: its language or pair, and its task or text.
    """

    measure: str
    system: str
    run: str
    seed: object
    mode: str
    infer: str
    set: tuple[str, str]
    value: float
    labels: Row


def scores_of(rows: Sequence[Row]) -> list[Score]:
    """The scores of rows of `modtok eval`; what a model has twice counts by its last row."""
    rows = [row for row in rows if row.get("recipe") and row.get("task") != "mean"]
    names, labels = _system_names(rows), _mode_labels(rows)
    scores: dict[Any, Score] = {}
    firsts: dict[Any, Any] = {}
    for row in rows:
        task, mode = str(row.get("task", row.get("text"))), str(row["infer"])
        value = row["value"] if "task" in row else row["bits_per_byte"]
        if value is None:
            continue
        own = row["checkpoint"], mode, row["language"], task
        if "task" not in row:
            measure = "bpb"
        elif task in ("mt", "sum"):
            measure = f"{task} {row['metric']}"
        elif not row.get("higher_is_better", True) or row.get("scale", 100) != 100:
            measure = f"{task} {row['metric']}"  # of lm-eval, and no accuracy
        else:  # of further metrics of a task of lm-eval the first counts
            measure = "mcq"
            if firsts.setdefault(own, row["metric"]) != row["metric"]:
                continue
        scores[measure, *own] = Score(
            measure, names[row["recipe"]], str(row["checkpoint"]), row.get("seed"),
            labels[mode], mode, (str(row["language"]), task), float(value), row,
        )  # fmt: skip
    return list(scores.values())


def _system_names(rows: Sequence[Row]) -> dict[str, str]:
    """Recipe → name: the sampling regime, with p, step or run where that tells them apart."""
    first = {str(row["recipe"]): row for row in reversed(rows)}
    names = {recipe: str(row.get("sampling") or row["run"]) for recipe, row in first.items()}
    for key in ("p", "step", "run"):
        for name in set(names.values()):
            rivals = [recipe for recipe in first if names[recipe] == name]
            values = {recipe: first[recipe].get(key) for recipe in rivals}
            if len(set(map(str, values.values()))) > 1:
                names |= {recipe: f"{name} {key}={values[recipe]}" for recipe in rivals}
    return names


def _mode_labels(rows: Sequence[Row]) -> dict[str, str]:
    modes = dict.fromkeys(str(row["infer"]) for row in rows)
    sizes = [mode.count(",") + 1 for mode in modes if "," in mode]
    return {
        mode: f"{size} languages" if "," in mode and sizes.count(size) > 1 else mode
        for mode in modes
        for size in [mode.count(",") + 1]
    }


def mean_of(scores: Sequence[Score]) -> float:
    """Mean over languages, in each over tasks, in each over sets of languages."""

    def mean(group: Sequence[Score], keys: Sequence[Callable[[Score], Any]]) -> float:
        if not keys:
            return fmean(score.value for score in group)
        parts: dict[Any, list[Score]] = {}
        for score in group:
            parts.setdefault(keys[0](score), []).append(score)
        return fmean(mean(part, keys[1:]) for part in parts.values())

    return mean(scores, [lambda score: score.set[0], lambda score: score.set])


def by_run(scores: Sequence[Score]) -> dict[str, list[Score]]:
    """The scores of each run."""
    runs: dict[str, list[Score]] = {}
    for score in scores:
        runs.setdefault(score.run, []).append(score)
    return runs


def common(groups: Sequence[Sequence[Score]]) -> list[list[Score]]:
    """The scores of each group on languages and tasks that every run of every group has."""
    present = [{s.set for s in run} for group in groups for run in by_run(group).values()]
    sets = set.intersection(*present) if present else set()
    return [[score for score in group if score.set in sets] for group in groups]


def means_of(scores: Sequence[Score]) -> dict[str, dict[Group, Row]]:
    """Measure → system and mode → value, low, high, runs, languages, spread, and its labels.

    `spread` is the mean over runs, languages and tasks of the standard deviation over sets of
    languages; None without several.
    """
    means: dict[str, dict[Group, Row]] = {}
    for measure, groups in _groups(scores).items():
        shared = common(list(groups.values()))
        for (key, group), chosen in zip(groups.items(), shared, strict=True):
            counted = chosen or group
            values = [mean_of(run) for run in by_run(counted).values()]
            low, high = student_interval(values)
            means.setdefault(measure, {})[key] = {
                "value": fmean(values),
                "low": low,
                "high": high,
                "runs": len(values),
                "languages": len({score.set[0] for score in counted}),
                "spread": _spread(counted),
                "sampling": counted[0].labels.get("sampling"),
                "p": counted[0].labels.get("p"),
            }
    return means


def _groups(scores: Sequence[Score]) -> dict[str, dict[Group, list[Score]]]:
    groups: dict[str, dict[Group, list[Score]]] = {}
    for score in scores:
        of_measure = groups.setdefault(score.measure, {})
        of_measure.setdefault((score.system, score.mode), []).append(score)
    return groups


def _spread(scores: Sequence[Score]) -> float | None:
    parts: dict[Any, list[float]] = {}
    for score in scores:
        parts.setdefault((score.run, score.set), []).append(score.value)
    spreads = [stdev(values) for values in parts.values() if len(values) > 1]
    return fmean(spreads) if spreads else None


def student_interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """Student's 95% interval of the mean; None for a single value, and without scipy.

    >>> [round(end, 2) for end in student_interval([1.0, 2.0, 3.0])]
    [-0.48, 4.48]
    """
    if len(values) < 2 or not is_installed("scipy"):
        return None, None
    from scipy.stats import t

    half = float(t.ppf((1 + _COVERED) / 2, len(values) - 1)) * stdev(values) / len(values) ** 0.5
    return fmean(values) - half, fmean(values) + half


def differences_of(scores: Sequence[Score]) -> Iterator[Row]:
    """Differences of two modes of a system, and of two systems under one mode, over seeds.

    Over the languages and tasks that both have; of systems with two or more runs each.

    Yields:
        measure, system_a, infer_a, system_b, infer_b; a, b, difference (b - a) with its 95%
        interval (low, high), and p: of a paired t-test if both have the same seeds, else of
        Welch's; runs.
    """
    for measure, groups in _groups(scores).items():
        for one, other in combinations(groups, 2):
            if (one[0] == other[0]) == (one[1] == other[1]):
                continue
            first, second = map(_by_seed, common([groups[one], groups[other]]))
            runs = min(len(first), len(second))
            if runs < 2:
                continue
            a, b = fmean(first.values()), fmean(second.values())
            yield {
                "measure": measure,
                "system_a": one[0],
                "infer_a": one[1],
                "system_b": other[0],
                "infer_b": other[1],
                "a": a,
                "b": b,
                "difference": b - a,
                "runs": runs,
                **difference_over_seeds(first, second),
            }


def _by_seed(group: Sequence[Score]) -> dict[Any, float]:
    """Mean of each run, by its seed if no two have the same."""
    runs = by_run(group)
    seeds = [run[0].seed for run in runs.values()]
    unique = None not in seeds and len(set(seeds)) == len(seeds)
    return {run[0].seed if unique else name: mean_of(run) for name, run in runs.items()}


def difference_over_seeds(first: Mapping[Any, float], second: Mapping[Any, float]) -> Row:
    """Interval and p of the difference of means over two or more runs each."""
    from scipy.stats import ttest_ind, ttest_rel

    if set(first) == set(second):
        one, other = ([values[seed] for seed in first] for values in (first, second))
        steady = len({b - a for a, b in zip(one, other, strict=True)}) == 1
        result = None if steady else ttest_rel(other, one)
    else:
        one, other = [*first.values()], [*second.values()]
        steady = len({*one}) == len({*other}) == 1
        result = None if steady else ttest_ind(other, one, equal_var=False)
    if result is None:  # no variance: the test has nothing to go by
        difference = fmean(other) - fmean(one)
        return {"low": difference, "high": difference, "p": 1.0 if difference == 0 else None}
    low, high = map(float, result.confidence_interval(_COVERED))
    return {"low": low, "high": high, "p": None if isnan(result.pvalue) else float(result.pvalue)}


def form_of(measure: str) -> Form:
    """Bits per byte have three decimals, scores one."""
    return "ratio" if measure == "bpb" else "score"


def _title(measure: str) -> str:
    return _TITLES.get(measure, measure.replace("sum ", "Summaries, "))


def tables(rows: Sequence[Row]) -> list[Table]:
    """Means and tests of rows of several models or modes; none of a single one."""
    scores = scores_of(rows)
    if len({(score.run, score.infer) for score in scores}) < 2:
        return []
    means = means_of(scores)
    found = [_averages(measure, groups) for measure, groups in means.items()]
    found += _by_language(scores)
    found += _over_p(means)
    if is_installed("scipy"):
        found += _differences(list(differences_of(scores)))
    return found


def charts(rows: Sequence[Row]) -> list[Chart]:
    """Means with intervals by system, a series for each mode, a chart for each measure."""
    found: list[Chart] = []
    for measure, groups in means_of(scores_of(rows)).items():
        systems = list(dict.fromkeys(system for system, _ in groups))
        if len(systems) > 1 and measure in _TITLES:
            series = marks_of(
                (f"--infer {mode}", system, Mark(row["value"], row["low"], row["high"]))
                for (system, mode), row in groups.items()
            )
            found.append(Dots(f"{_title(measure)}: means", "mean over languages", systems, series))
    return found


def _averages(measure: str, groups: Mapping[Group, Row]) -> Table:
    systems, modes = (list(dict.fromkeys(key[at] for key in groups)) for at in (0, 1))

    def shown(row: Row | None) -> str:
        text = with_interval(row, form_of(measure))
        spread = row and row["spread"]
        return text if spread is None else f"{text} ± {cell(spread, form_of(measure))}"

    body = [[name, *(shown(groups.get((name, mode))) for mode in modes)] for name in systems]
    languages, runs = (max(row[key] for row in groups.values()) for key in ("languages", "runs"))
    over = f"Student's 95% interval over up to {runs} seeds. " if runs > 1 else ""
    several = any(row["spread"] is not None for row in groups.values())
    note = f"{over}{'± is the standard deviation over sets of languages.' if several else ''}"
    what = "pair" if measure.startswith("mt ") else "language"
    caption = f"{_title(measure)}: mean over {languages} {what}{'s' * (languages > 1)}"
    return Table(caption, ["system", *modes], body, note=note.strip())


def _by_language(scores: Sequence[Score]) -> list[Table]:
    """Systems and modes × languages, the main table of the paper.

    A pair with English is named by the other language, as in the paper.
    """
    main = [score for score in scores if score.measure in _SHORT]
    cells: dict[tuple[str, str, str, str], list[Score]] = {}
    for score in main:
        language = score.set[0].removeprefix("en-")
        cells.setdefault((score.system, score.mode, language, score.measure), []).append(score)
    columns = sorted({key[2:] for key in cells})
    body = [
        [
            *group,
            *(
                cell(mean_of(found), form_of(one[1]))
                if (found := cells.get((*group, *one)))
                else "–"
                for one in columns
            ),
        ]
        for group in dict.fromkeys(key[:2] for key in cells)
    ]
    headings = ["system", "infer", *(f"{language} {_SHORT[name]}" for language, name in columns)]
    return [Table("Scores by language", headings, body, left=2)] if body else []


def _over_p(means: Mapping[str, Mapping[Group, Row]]) -> list[Table]:
    """Measures and modes over p, the probability of the larger subtokenizer, for each regime."""
    cells = {
        (row["sampling"], row["p"], measure, mode): row
        for measure, groups in means.items()
        for (_, mode), row in groups.items()
        if measure in _SHORT and row["sampling"]
    }
    regimes: dict[str, set[float]] = {}
    for sampling, p, *_ in cells:
        regimes.setdefault(sampling, set()).add(p)
    if all(len(values) < 2 for values in regimes.values()):
        return []
    columns = list(dict.fromkeys(key[2:] for key in cells))
    body = [
        [
            sampling,
            f"{p:g}" if len(regimes[sampling]) > 1 else "–",
            *(with_interval(cells.get((sampling, p, *one)), form_of(one[0])) for one in columns),
        ]
        for sampling in sorted(regimes, key=lambda name: len(regimes[name]) > 1)
        for p in sorted(regimes[sampling], key=lambda p: -1.0 if p is None else p)
    ]
    headings = ["sampling", "p", *(f"{_SHORT[measure]} {mode}" for measure, mode in columns)]
    return [Table("Scores over p", headings, body)]


def _differences(tests: Sequence[Row]) -> list[Table]:
    found = []
    for (measure,), rows in grouped(tests, "measure").items():
        body = []
        for row in rows:
            same = row["system_a"] == row["system_b"]
            form = form_of(measure)
            what = row["system_a"] if same else f"--infer {row['infer_a']}"
            sides = ("infer_a", "infer_b") if same else ("system_a", "system_b")
            body.append(
                [
                    what,
                    *(str(row[side]) for side in sides),
                    *(cell(row[key], form) for key in ("a", "b", "difference")),
                    " to ".join(cell(row[key], form) for key in ("low", "high")),
                    "–" if row["p"] is None else f"{row['p']:.3f}",
                    str(row["runs"]),
                ]
            )
        headings = ["within", "A", "B", "A", "B", "B - A", "95% interval", "p", "seeds"]
        note = "t-tests over seeds, paired if both have the same; p is not corrected."
        found.append(Table(f"{_title(measure)}: differences", headings, body, left=3, note=note))
    return found
