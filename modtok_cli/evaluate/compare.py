"""`modtok eval compare`: test whether two systems differ on the same examples.

Paired bootstrap (Koehn 2004): both systems are resampled on the same examples, 1,000 times. The
interval is of the difference; p is the fraction of resamples whose difference is as far from
the observed difference as the observed difference is from zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from modtok_cli.base import parameters
from modtok_cli.base.arrays import Float64Array
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import check_new, write_lines
from modtok_cli.base.option import Option
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.base.signature import signature
from modtok_cli.evaluate.evaluate import evaluate_bpb, evaluate_mcq, evaluate_mt, evaluate_sum
from modtok_cli.evaluate.parameters import Limit, Pairs, Shared, TaskData, Tasks
from modtok_cli.evaluate.results import (
    MT,
    RESAMPLES,
    SEED,
    Outcome,
    data_digest,
    interval,
    read_examples,
    resampled_sums,
)
from modtok_cli.evaluate.text_scores import corpus_metrics
from modtok_cli.text.languages import optional_languages, target_of

Example = Mapping[str, Any]
Set = tuple[str, str]  # task and language
MEAN = "mean"
BITS = "bits_per_byte"
LEVEL = 0.05
# Fields that a system gives an example; all others must be equal in both rows.
_OF_SYSTEM = frozenset(
    {"scores", "output", "reason", "tokens", "prompt_tokens", "shots", "cut", "infer", "chosen",
     "nats", "nats_bare", "bits"}
)  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """A metric of s systems: observed (s,), and for each resample (resamples, s)."""

    observed: Float64Array
    draws: Float64Array


@public
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
        parameters.FilePath, Option("Second system, of the same kind.", argument=True, metavar="B")
    ],
    *,
    tasks: Tasks = None,
    languages: parameters.Langs = None,
    pairs: Pairs = None,
    texts: Annotated[
        parameters.FilePath | Sequence[parameters.FilePath],
        Option(
            "Models: compare bits per byte on this text. Repeatable.",
            flags="--text",
            kind=list[str],
            metavar="TEXT",
            accepts=parameters.PATHS,
        ),
    ] = (),
    data: TaskData = "tasks",
    infer: Annotated[
        str | None, Option("Inference vocabulary of both models.", metavar="MODE")
    ] = None,
    limit: Limit = None,
    processes: Shared = None,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Compare two systems by paired bootstrap.

    Two models are evaluated on `tasks`: names of multiple-choice tasks, mcq for all of them, mt
    and sum; and on `texts`. Two files are compared as they are; both must have the same examples.

    Each metric is computed on 1,000 resamples of the examples, the same for both systems; BLEU and
    chrF++ from sentence statistics. Reports a verdict at the level of 5%, the 95% interval of the
    difference, and the p-value of no difference. A task in several languages also has a row for
    their mean.

    Returns:
        One row per task, language and metric: `verdict`, `a`, `b`, `difference` (b - a), its 95%
        interval and `p`. `write_examples` writes files.

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
    if not any(side.is_dir() for side in sides):
        if names or sources:
            raise UsageError("--tasks and --text are for models", where=first)
        return compare_examples(read_examples(sides[0]), read_examples(sides[1]), *sides)
    if not (names or sources):
        remedy = "as in: modtok eval compare A B --tasks mcq,mt, or --text FILE"
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
    return compare_examples(examples[0], examples[1], *sides)


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
    ours_all: Sequence[Example], theirs_all: Sequence[Example], first: Path, second: Path
) -> list[dict[str, Any]]:
    """Compare what two systems made of the same examples; their names are for messages.

    Returns:
        One row per task, language and metric: verdict, a, b, difference (b - a) with its 95%
        interval, p, n; and one row for the mean over the languages of a task that has several.
    """
    ours, theirs = _by_set(ours_all, first), _by_set(theirs_all, second)
    _require_same(first, ours, second, theirs)
    rows, drawn = [], dict[tuple[str, str], list[Drawn]]()
    for key, examples in ours.items():
        pairs = [(examples[name], theirs[key][name]) for name in examples]
        names = data_digest(name for name in examples)
        for metric, each in _metrics(key, pairs, second).items():
            drawn.setdefault((key[0], metric), []).append(each)
            rows.append(_row(key, metric, each, len(pairs), names))
    for (task, metric), parts in drawn.items():
        if len(parts) > 1:
            mean = Drawn(
                np.mean([part.observed for part in parts], axis=0),
                np.mean([part.draws for part in parts], axis=0),
            )
            sets = {key: names for key, names in ours.items() if key[0] == task}
            names = data_digest(name for group in sets.values() for name in group)
            count = sum(len(group) for group in sets.values())
            rows.append(_row((task, MEAN), metric, mean, count, names))
    if not rows:
        raise ModtokError("contains no scores and no translations", where=first)
    return rows


def verdict(metric: str, difference: float, p: float) -> str:
    """Which system is better, if the difference is one at the level of 5%.

    >>> verdict("BLEU", 1.2, 0.01), verdict("bits_per_byte", 0.2, 0.01), verdict("BLEU", 1.2, 0.2)
    ('B is better', 'A is better', 'no difference shown')
    """
    if p >= LEVEL:
        return "no difference shown"
    return f"{'B' if (difference > 0) != (metric == BITS) else 'A'} is better"


def summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many rows have each verdict, and how many a difference would be by chance.

    >>> rows = [{"verdict": "B is better"}, {"verdict": "no difference shown"}]
    >>> summary(rows)
    'B is better in 1 of 2 rows, A in 0; by chance 0.1 would show a difference'
    """
    wins = {side: sum(row["verdict"].startswith(side) for row in rows) for side in "AB"}
    more, fewer = sorted(wins, key=wins.__getitem__, reverse=True)
    return (
        f"{more} is better in {wins[more]} of {len(rows)} rows, {fewer} in {wins[fewer]}; "
        f"by chance {LEVEL * len(rows):.2g} would show a difference"
    )


def _row(key: Set, metric: str, both: Drawn, count: int, names: str) -> dict[str, Any]:
    differences = both.draws[:, 1] - both.draws[:, 0]
    difference = float(both.observed[1] - both.observed[0])
    low, high = interval(differences)
    p = p_value(differences, difference)
    return {
        "verdict": verdict(metric, difference, p),
        "task": key[0],
        "language": key[1],
        "metric": metric,
        "a": float(both.observed[0]),
        "b": float(both.observed[1]),
        "difference": difference,
        "low": low,
        "high": high,
        "p": p,
        "n": count,
        "signature": signature(
            "compare",
            task=key[0],
            lang=key[1],
            metric=metric,
            examples=names,
            bootstrap=RESAMPLES,
            seed=SEED,
        ),
    }


def p_value(differences: Float64Array, observed: float) -> float:
    """Two-sided p-value of no difference, from bootstrap resamples shifted to zero mean.

    The observed sample counts as one resample, so p is never 0 (as in sacreBLEU).
    """
    # Tolerance for rounding: identical systems have p = 1.
    far = np.abs(differences - observed) >= abs(observed) - 1e-12
    return float((far.sum() + 1) / (len(differences) + 1))


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


def _metrics(key: Set, pairs: Sequence[tuple[Example, Example]], second: Path) -> dict[str, Drawn]:
    metrics = drawn_metrics(key, list(zip(*pairs, strict=True)))
    for a, b in pairs:
        if not metrics and set(a["scores"]) != set(b["scores"]):
            raise ModtokError(
                f"example {b['id']} of {' '.join(key)} has other metrics",
                where=second,
                remedy="evaluate both with the same settings",
            )
    return metrics


def drawn_metrics(key: Set, systems: Sequence[Sequence[Example]]) -> dict[str, Drawn]:
    """All metrics that a set has of all systems, resampled on the same examples."""
    rows = [row for system in systems for row in system]
    metrics: dict[str, Drawn] = {}
    if all("bits" in row and "bytes" in row for row in rows):
        sizes = [row["bytes"] for row in systems[0]]
        bits = [[row["bits"] for row in system] for system in systems]
        values = np.column_stack([*bits, sizes]).astype(np.float64)
        sums, total = resampled_sums(values), values.sum(0)
        metrics[BITS] = Drawn(total[:-1] / total[-1], sums[:, :-1] / sums[:, -1:])
    if key[0] == MT and all("output" in row and "reference" in row for row in rows):
        metrics.update(_corpus_metrics(target_of(key[1]), systems))
    for name in (each for each in rows[0]["scores"] if all(each in row["scores"] for row in rows)):
        values = np.column_stack([[row["scores"][name] for row in system] for system in systems])
        values = values.astype(np.float64)
        metrics[name] = Drawn(100 * values.mean(0), 100 * (resampled_sums(values) / len(values)))
    return metrics


def _corpus_metrics(target: str, systems: Sequence[Sequence[Example]]) -> dict[str, Drawn]:
    references = [str(row["reference"]) for row in systems[0]]
    metrics = {}
    for metric in corpus_metrics(target, lowercase=bool(systems[0][0].get("lowercase"))):
        statistics = [
            metric.statistics([str(row["output"]) for row in system], references)
            for system in systems
        ]
        metrics[metric.name] = Drawn(
            np.array([metric.score(rows.sum(0)) for rows in statistics]),
            np.stack([metric.resampled(rows) for rows in statistics], axis=1),
        )
    return metrics
