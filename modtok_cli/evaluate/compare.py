"""`modtok eval compare`: test whether two systems differ on the same examples.

Paired bootstrap (Koehn 2004): both systems are resampled on the same examples. The interval is of
the difference; p is the fraction of resamples whose difference is as far from the observed
difference as the observed difference is from zero. Accuracies have the p of McNemar's exact test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from modtok_cli.base import parameters
from modtok_cli.base.arrays import Float64Array
from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.files import check_new, write_lines
from modtok_cli.base.option import Option, options_of
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.signature import signature
from modtok_cli.base.unused import Unused, uses
from modtok_cli.evaluate.evaluate import evaluate_bpb, evaluate_mcq, evaluate_mt, evaluate_sum
from modtok_cli.evaluate.modes import INFER
from modtok_cli.evaluate.parameters import Limit, Pairs, Shared, TaskData, Tasks
from modtok_cli.evaluate.results import (
    ACCURACY,
    AGGREGATES,
    MT,
    SEED,
    Metric,
    Outcome,
    data_digest,
    interval,
    read_examples,
    resampled_sums,
    score_and_weight,
)
from modtok_cli.evaluate.significance import holm, mcnemar, p_value
from modtok_cli.evaluate.text_scores import corpus_metrics
from modtok_cli.text.languages import optional_languages, split_pair

Example = Mapping[str, Any]
Set = tuple[str, str]  # task and language
MEAN = "mean"
BITS, BITS_DECLARED = "bits_per_byte", Metric("mean", higher_is_better=False, scale=1)
LEVEL = 0.05
# Fields that a system gives an example; all others must be equal in both rows.
_OF_SYSTEM = frozenset(
    {"scores", "output", "reason", "tokens", "prompt_tokens", "shots", "cut", "infer", "chosen",
     "nats", "nats_bare", "bits", "metrics"}
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """A metric of two systems on the same examples.

    Attributes:
        observed: (2,)
        draws: (resamples, 2); None if the examples do not give the metric.
        differing: of accuracies, examples that only the first and only the second gets right.
    """

    observed: Float64Array
    draws: Float64Array | None
    declared: Metric = ACCURACY
    differing: tuple[int, int] | None = None


@dataclass(frozen=True)
class _Metric:
    """Statistics of each example (examples, m) of both systems; sums (n, m) give metrics (n,)."""

    statistics: Sequence[Float64Array]
    of_sums: Callable[[Float64Array], Float64Array]
    declared: Metric = ACCURACY
    differing: tuple[int, int] | None = None


def _unused(values: Mapping[str, Any]) -> Unused:
    if all(Path(values[side]).is_file() for side in ("first", "second")):
        yield options_of(compare).keys() - {"first", "second", "resamples"}, "two files are given"


@public
@uses(_unused)
def compare(
    first: Annotated[
        parameters.FilePath,
        Option(
            "First system: a model, or a file of modtok eval --examples.",
            argument=True,
            metavar="A",
        ),
    ],
    second: Annotated[
        parameters.FilePath,
        Option("Second system: another model, or another such file.", argument=True, metavar="B"),
    ],
    *,
    tasks: Tasks = None,
    languages: parameters.Langs = None,
    pairs: Pairs = None,
    texts: Annotated[
        parameters.FilePath | Sequence[parameters.FilePath],
        Option(
            "Text on which bits per byte of models are compared.",
            argument=True,
            kind=list[str],
            metavar="TEXT",
            accepts=parameters.PATHS,
        ),
    ] = (),
    data: TaskData = "tasks",
    infer: Annotated[str | None, Option(f"{INFER} Of both models.", metavar="MODE")] = None,
    limit: Limit = None,
    resamples: Annotated[
        int, Option("Number of resamples of the examples.", metavar="N", low=100)
    ] = 10_000,
    processes: Shared = None,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Compare two systems on the same examples.

    Two models are evaluated on `tasks`: names of multiple-choice tasks, mcq for all of them, mt
    and sum; and on `texts`. Two files are compared as they are; both must have the same examples.

    Reports the difference, its 95% interval by paired bootstrap, the p-value of no difference
    (McNemar's exact test for accuracies, else bootstrap), p by Holm's correction over all rows,
    and a verdict at the level of 5% by p. Tasks of lm-eval declare which values are better; a
    metric that its examples do not give has no p. A task in several languages also has their mean.

    Returns:
        One row per task, language and metric: `verdict`, `a`, `b`, `difference` (b - a), its 95%
        interval, `p`, `p_holm`, and `test`. `write_examples` writes files.

    Examples:
        >>> rows = modtok.compare("runs/latest", "runs/latest", tasks="endings", languages="fi")
        >>> {(row["verdict"], row["p"]) for row in rows}
        {('no difference shown', 1.0)}

    Raises:
        UsageError: a model and a file, or models without anything to compare them on.
        ModtokError: the systems have different examples, or an example differs between them.
    """
    sides, names = (Path(first), Path(second)), optional_languages(tasks, "--tasks") or []
    sources = parameters.text_paths(texts) if parameters.is_path(texts) or texts else []
    models = [side for side in sides if side.is_dir()]
    if not models:
        files = [read_examples(side) for side in sides]
        return compare_examples(files, sides, resamples=resamples, progress=progress)
    if absent := [side for side in sides if not side.exists()]:
        raise missing(absent[0])  # before the other one is evaluated
    if len(models) == 1:
        remedy = "pass two models, or two files of modtok eval --examples"
        raise UsageError("is a model, and the other is a file", where=models[0], remedy=remedy)
    if not (names or sources):
        remedy = "as in: modtok eval compare A B --tasks mcq,mt, or A B text.txt"
        raise UsageError("nothing to compare the models on", remedy=remedy)
    settings: dict[str, Any] = {
        "infer": infer, "limit": limit, "processes": processes, "progress": progress
    }  # fmt: skip
    examples: list[list[dict[str, Any]]] = []
    for side in sides:
        parts: list[Outcome] = []
        suites = [name for name in names if name not in ("mcq", "mt", "sum")]
        if suites or "mcq" in names:
            chosen = None if "mcq" in names else suites
            parts.append(evaluate_mcq(side, languages, tasks=chosen, data=data, **settings))
        if "mt" in names:
            parts.append(evaluate_mt(side, pairs, data=data, **settings))
        if "sum" in names:
            parts.append(evaluate_sum(side, languages, data=data, **settings))
        if sources:
            parts.append(evaluate_bpb(side, sources, languages=languages, **settings))
        for part in parts:
            part.require_complete()
        examples.append([row for part in parts for row in part.examples])
    return compare_examples(examples, sides, resamples=resamples, progress=progress)


@public
def write_examples(
    path: Annotated[parameters.FilePath, Option("File to write.", metavar="FILE")],
    examples: Annotated[
        Sequence[Mapping[str, Any]],
        Option("Examples of an evaluation.", python_only=True, kind=object),
    ],
    *,
    force: parameters.Force = False,
) -> None:
    """Write the examples of an evaluation as JSON lines, for `compare`.

    Raises:
        UsageError: the file exists and `force` is not set.
        ModtokError: the file cannot be written.
    """
    check_new(Path(path), force=force, flag="path")
    write_lines(Path(path), examples)


def compare_examples(
    systems: Sequence[Sequence[Example]],
    names: tuple[Path, Path],
    *,
    resamples: int,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Compare what two systems made of the same examples; their names are for messages.

    Returns:
        One row per task, language and metric, see `compare`; and one row for the mean over the
        languages of a task that has several.
    """
    ours, theirs = (_by_set(*each) for each in zip(systems, names, strict=True))
    _require_same(names[0], ours, names[1], theirs)
    rows, parts = [], dict[tuple[str, str], list[Measured]]()
    with progress.task("comparing", len(ours), "sets of examples") as task:
        for key, examples in ours.items():
            pairs = [(examples[name], theirs[key][name]) for name in examples]
            digest = data_digest(name for name in examples)
            for metric, each in _measured(key, pairs, names[1], resamples, progress).items():
                parts.setdefault((key[0], metric), []).append(each)
                rows.append(_row(key, metric, each, len(pairs), digest, resamples))
            task.advance(1)
    for (name, metric), several in parts.items():
        if len(several) > 1:
            sets = {key: group for key, group in ours.items() if key[0] == name}
            digest = data_digest(each for group in sets.values() for each in group)
            count = sum(len(group) for group in sets.values())
            rows.append(_row((name, MEAN), metric, _mean(several), count, digest, resamples))
    if not rows:
        raise ModtokError("contains no scores and no translations", where=names[0])
    for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row["p_holm"] = p
    return rows


def _mean(parts: Sequence[Measured]) -> Measured:
    draws = [part.draws for part in parts if part.draws is not None]
    return Measured(
        np.mean([part.observed for part in parts], axis=0),
        np.mean(draws, axis=0) if len(draws) == len(parts) else None,
        parts[0].declared,
    )


def verdict(difference: float, p: float | None, higher_is_better: bool | None = True) -> str:
    """Say which system is better, if the difference is one at the level of 5%.

    >>> verdict(1.2, 0.01), verdict(0.2, 0.01, False), verdict(1.2, 0.2), verdict(1.2, None)
    ('B is better', 'A is better', 'no difference shown', 'not tested')
    """
    if p is None:
        return "not tested"
    if p >= LEVEL:
        return "no difference shown"
    if higher_is_better is None:
        return "A and B differ"
    return f"{'B' if (difference > 0) == higher_is_better else 'A'} is better"


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say how many rows have each verdict, before and after Holm's correction.

    >>> rows = [{"verdict": "B is better", "p_holm": 0.06}, {"verdict": "no difference shown"}]
    >>> summary(rows)
    "B is better in 1 of 2 rows, A in 0; after Holm's correction in 0 and 0"
    """
    wins = {side: [row for row in rows if row["verdict"].startswith(f"{side} is")] for side in "AB"}
    more, fewer = sorted(wins, key=lambda side: len(wins[side]), reverse=True)
    left = {side: sum(row["p_holm"] < LEVEL for row in wins[side]) for side in wins}
    return (
        f"{more} is better in {len(wins[more])} of {len(rows)} rows, {fewer} in {len(wins[fewer])};"
        f" after Holm's correction in {left[more]} and {left[fewer]}"
    )


def _row(
    key: Set, metric: str, both: Measured, count: int, names: str, resamples: int
) -> dict[str, Any]:
    difference = float(both.observed[1] - both.observed[0])
    low, high, p, test = None, None, None, None
    if both.draws is not None:
        differences = both.draws[:, 1] - both.draws[:, 0]
        low, high = interval(differences)
        p, test = p_value(differences, difference), "bootstrap"
    if both.differing is not None:
        p, test = mcnemar(*both.differing), "McNemar"
    return {
        "verdict": verdict(difference, p, both.declared.higher_is_better),
        "task": key[0],
        "language": key[1],
        "metric": metric,
        "a": float(both.observed[0]),
        "b": float(both.observed[1]),
        "difference": difference,
        "low": low,
        "high": high,
        "p": p,
        "p_holm": None,
        "test": test,
        "higher_is_better": both.declared.higher_is_better,
        "scale": both.declared.scale,
        "n": count,
        "signature": signature(
            "compare",
            task=key[0],
            lang=key[1],
            metric=metric,
            examples=names,
            bootstrap=resamples,
            seed=SEED,
        ),
    }


def _by_set(rows: Sequence[Example], path: Path) -> dict[Set, dict[str, Example]]:
    sets: dict[Set, dict[str, Example]] = {}
    for row in rows:
        group = sets.setdefault((row["task"], row["language"]), {})
        if row["id"] in group:
            raise ModtokError(
                f"contains example {row['id']} of {row['task']} {row['language']} twice",
                where=path,
                remedy="pass a file written by one call of modtok eval --examples",
            )
        group[row["id"]] = row
    return dict(sorted(sets.items()))


def _require_same(
    first: Path,
    ours: Mapping[Set, Mapping[str, Example]],
    second: Path,
    theirs: Mapping[Set, Mapping[str, Example]],
) -> None:
    for key in sorted({*ours, *theirs}):
        task, language = key
        a, b = ours.get(key, {}), theirs.get(key, {})
        lacking = [(second, name) for name in a if name not in b]
        lacking += [(first, name) for name in b if name not in a]
        if lacking:
            place, name = lacking[0]
            raise ModtokError(
                f"has no example {name} of {task} {language}, unlike the other file "
                f"({len(lacking):,} missing)",
                where=place,
                remedy="evaluate both on the same data with the same --limit",
            )
        for name, row in a.items():
            differing = {k for k in {*row, *b[name]} if row.get(k) != b[name].get(k)} - _OF_SYSTEM
            if differing:
                raise ModtokError(
                    f"{min(differing)} of example {name} of {task} {language} differs from {first}",
                    where=second,
                    remedy="evaluate both on the same data with the same settings",
                )


def _measured(
    key: Set,
    pairs: Sequence[tuple[Example, Example]],
    second: Path,
    resamples: int,
    progress: Progress,
) -> dict[str, Measured]:
    """Return all metrics of a set, on the same resamples."""
    systems = [list(system) for system in zip(*pairs, strict=True)]
    declared, values = _declarations(systems, second)
    metrics = _metrics(key, systems, declared)
    for a, b in pairs:
        if not metrics and not values and set(a["scores"]) != set(b["scores"]):
            raise ModtokError(
                f"example {b['id']} of {' '.join(key)} has other metrics",
                where=second,
                remedy="evaluate both with the same settings",
            )
    rows = [{*row["scores"], *row.get("metrics", {})} for pair in pairs for row in pair]
    partial = sorted(set().union(*rows) - set.intersection(*rows))
    if partial:
        which = f"{' '.join(key)}: {', '.join(partial)}"
        progress.note(f"{which}: not in every example of both, and not compared")
    found = {
        name: Measured(np.array(whole), None, declared[name]) for name, whole in values.items()
    }
    tables = [table for metric in metrics.values() for table in metric.statistics]
    sums = resampled_sums(np.concatenate(tables, axis=1), resamples) if tables else None
    at = 0
    for name, metric in metrics.items():
        observed, draws = [], []
        for table in metric.statistics:
            assert sums is not None
            observed.append(metric.of_sums(table.sum(0, keepdims=True))[0])
            draws.append(metric.of_sums(sums[:, at : at + table.shape[1]]))
            at += table.shape[1]
        if name in values and not np.allclose(observed, values[name], rtol=1e-6):
            continue
        found[name] = Measured(
            np.array(observed), np.stack(draws, 1), metric.declared, metric.differing
        )
    for name, each in found.items():
        if each.draws is None:
            progress.note(
                f"{' '.join(key)}: {name} ({declared[name].aggregation}) does not follow from its "
                "examples: the values of modtok eval mcq are compared, without p"
            )
    return found


def _declarations(
    systems: Sequence[Sequence[Example]], second: Path
) -> tuple[dict[str, Metric], dict[str, list[float]]]:
    """The declarations of metrics in lm-eval's tasks, and the values for all examples of a set."""
    first, other = (system[0].get("metrics", {}) for system in systems)
    declared, values = {}, {}
    for name in first.keys() & other.keys():
        sides = [dict(side[name]) for side in (first, other)]
        wholes = [side.pop("value") for side in sides]
        if sides[0] != sides[1]:
            raise ModtokError(
                f"declares the metric {name} otherwise than the other file",
                where=second,
                remedy="evaluate both with the same task",
            )
        declared[name] = Metric(**sides[0])
        if None not in wholes:
            values[name] = wholes
    return declared, values


def _metrics(
    key: Set, systems: Sequence[Sequence[Example]], declared: Mapping[str, Metric]
) -> dict[str, _Metric]:
    """Return the metrics that follow from the examples of both systems."""
    rows = [row for system in systems for row in system]
    metrics: dict[str, _Metric] = {}
    if all("bits" in row and "bytes" in row for row in rows):
        tables = [
            np.array([(row["bits"], row["bytes"]) for row in system], dtype=np.float64)
            for system in systems
        ]
        metrics[BITS] = _Metric(tables, BITS_DECLARED.of_sums, BITS_DECLARED)
    if key[0] == MT and all("output" in row and "reference" in row for row in rows):
        metrics.update(_corpus_metrics((split_pair(key[1]) or (key[1],))[-1], systems))
    for name in rows[0]["scores"]:
        declaration = declared.get(name, ACCURACY)
        if declaration.aggregation not in AGGREGATES or any(
            name not in row["scores"] for row in rows
        ):
            continue
        tables = [
            np.array([score_and_weight(row["scores"][name]) for row in system], dtype=np.float64)
            for system in systems
        ]
        differing = None
        if declaration.aggregation == "mean" and np.isin(tables, (0.0, 1.0)).all():
            one, other = (table[:, 0] for table in tables)
            differing = int((one > other).sum()), int((other > one).sum())
        metrics[name] = _Metric(tables, declaration.of_sums, declaration, differing)
    return metrics


def _corpus_metrics(target: str, systems: Sequence[Sequence[Example]]) -> dict[str, _Metric]:
    references = [str(row["reference"]) for row in systems[0]]
    metrics = {}
    for metric in corpus_metrics(target, lowercase=bool(systems[0][0].get("lowercase"))):
        tables = [
            metric.statistics([str(row["output"]) for row in system], references)
            for system in systems
        ]
        metrics[metric.name] = _Metric(tables, metric.of_sums)
    return metrics
