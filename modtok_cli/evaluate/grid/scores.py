"""The scores of a grid by measure, and bootstrap resamples of each.

A measure is what is averaged: "mcq" (the accuracy of a task under its normalization), "mt BLEU",
"mt chrF++", "mt in language", "sum rougeL", …, "bpb".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from modtok_cli.base.arrays import Float64Array
from modtok_cli.base.signature import digest
from modtok_cli.evaluate.compare import BITS, drawn_metrics
from modtok_cli.evaluate.grid.cells import Row, Store
from modtok_cli.evaluate.grid.grid import GridResult, rows_of
from modtok_cli.evaluate.results import BPB, MCQ

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
