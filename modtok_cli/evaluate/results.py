"""Results of an evaluation: scores with intervals, one row per example, and a signature.

Metrics are on a scale of 0 to 100, as in the paper. The `scores` of a single example are fractions
of 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

import numpy as np
import orjson

from modtok_cli.base.arrays import Float64Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import write_lines
from modtok_cli.base.read_file import read_bounded
from modtok_cli.base.signature import digest, signature
from modtok_cli.evaluate.task_files import json_lines

MCQ, MT, SUM, BPB = "mcq", "mt", "sum", "bpb"
"""Names of the kinds of tasks."""
RESAMPLES = 1000
"""Resamples of an interval."""
SEED = 12345  # the default of sacreBLEU
_COVERED = (2.5, 97.5)
_Z = 1.959963984540054  # 97.5% quantile of the normal distribution
# Metrics that are functions of a ratio of two sums over examples: of scores and their count, or of
# pairs of a score and its weight. Named as in lm-eval.
AGGREGATES: Mapping[str, Callable[[Float64Array], Float64Array]] = {
    "mean": lambda ratio: ratio,
    "perplexity": lambda ratio: np.exp(-ratio),
    "weighted_perplexity": lambda ratio: np.exp(-ratio),
    "bits_per_byte": lambda ratio: -ratio / math.log(2),
}


@dataclass(frozen=True)
class Metric:
    """How a metric follows from the scores of examples, and which values are better.

    Attributes:
        aggregation: a key of `AGGREGATES`; another name if the scores do not give the metric.
        higher_is_better: None if the task does not say it.
        scale: factor of the metric in rows, 100 for fractions of 1.
    """

    aggregation: str = "mean"
    higher_is_better: bool | None = True
    scale: float = 100

    def of_sums(self, sums: Float64Array) -> Float64Array:
        """Return the metric of sums over examples (..., 2): of scores, and of their weights."""
        ratio = np.divide(sums[..., 0], sums[..., 1])
        return self.scale * AGGREGATES[self.aggregation](ratio)


ACCURACY = Metric()


def score_and_weight(score: Any) -> tuple[float, float]:
    """Return a score of an example as a pair; a plain number has the weight 1."""
    return (score[0], score[1]) if isinstance(score, list | tuple) else (score, 1.0)


@dataclass(frozen=True)
class Result:
    """One score.

    Attributes:
        task: "arc_easy", "mt", "sum", …
        language: "fr", or a pair such as "en-fr".
        metric: "acc", "acc_norm", "BLEU", "rougeL", …
        value: from 0 to 100.
        low, high: 95% interval, None if there is none.
        n: number of examples.
        shots: number of few-shot examples in a prompt, the mean of the prompts if mt or sum
            dropped some.
        normalization: divisor of likelihoods ("characters", …) or how texts are compared; "none".
        infer: inference mode, as --infer names it.
        signature: what the score depends on, see `evaluation_signature`.
        facts: further fields of the row.
        checkpoint: run, step and digest, see `model.source`.
    """

    task: str
    language: str
    metric: str
    value: float
    low: float | None
    high: float | None
    n: int
    shots: float
    normalization: str
    infer: str
    signature: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: str | None = None

    def as_row(self) -> dict[str, Any]:
        """Return the row for JSON output and tables."""
        own = {name: value for name, value in self.__dict__.items() if name != "facts"}
        return {**own, **self.facts}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Result:
        """Return the result of a row of `as_row`."""
        names = {each.name for each in fields(cls)} - {"facts"}
        facts = {name: value for name, value in row.items() if name not in names}
        return cls(**{name: row[name] for name in names}, facts=facts)


@dataclass
class Outcome:
    """The results of an evaluation beside its rows.

    Attributes:
        examples: one row per example, see `example`.
        skipped: what could not be evaluated and why. If not empty, the evaluation is incomplete.
    """

    examples: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def extend(self, other: Self) -> None:
        """Add what another evaluation produced."""
        for name, values in vars(other).items():
            getattr(self, name).extend(values)

    def require_complete(self) -> None:
        """Report what is missing; called after the results are printed."""
        if self.skipped:
            raise ModtokError(f"incomplete: {'; '.join(self.skipped)}")


@dataclass
class Evaluation(Outcome):
    """Everything that an evaluation produced.

    Attributes:
        results: the scores.
    """

    results: list[Result] = field(default_factory=list)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The results as rows."""
        return [result.as_row() for result in self.results]


@dataclass
class ResultBuilder:
    """Collects the results of one set of examples, which share most fields.

    Attributes:
        signature: what they all depend on, of `evaluation_signature`.
        model: fields of the rows that say of which model, see `Models.labels`.
        facts: further fields of the rows.
    """

    task: str
    language: str
    n: int
    shots: float
    infer: str
    signature: str
    model: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
    results: list[Result] = field(default_factory=list)

    def add(
        self,
        metric: str,
        value: float,
        bounds: tuple[float, float] | None,
        *,
        normalization: str = "none",
        facts: Mapping[str, Any] | None = None,
        **signed: object,
    ) -> None:
        """Add a score and its interval; `facts` and `signed` are of this metric."""
        sign = of_metric(self.signature, metric=metric, norm=normalization, **signed)
        low, high = bounds or (None, None)
        self.results.append(
            Result(
                self.task,
                self.language,
                metric,
                value,
                low,
                high,
                self.n,
                self.shots,
                normalization,
                self.infer,
                sign,
                {**self.model, **self.facts, **(facts or {})},
                self.model["checkpoint"],
            )
        )

    def add_mean(self, metric: str, values: Sequence[float], **signed: Any) -> None:
        """Add 100 times the mean of the examples' scores, with its interval."""
        self.add(metric, 100 * float(np.mean(values)), mean_interval(values), **signed)


def example(
    task: str, language: str, name: str, scores: Mapping[str, Any], **facts: Any
) -> dict[str, Any]:
    """Return the row of one example, as `modtok eval compare` reads it.

    `name` is unique in its task and language and equal for every model. `scores` are fractions of
    1; 100 times their mean is the metric, unless "metrics" has another `Metric` and the value
    of the whole set. Translations have "output" and "reference", for the corpus metrics.
    """
    return {"task": task, "language": language, "id": name, "scores": dict(scores), **facts}


def mean_interval(values: Sequence[float] | Float64Array) -> tuple[float, float]:
    """Return the 95% interval of 100 times the mean.

    The Wilson score interval if all values are 0 or 1; a bootstrap over examples otherwise.

    >>> [round(end, 1) for end in mean_interval([0.0] * 30)]
    [0.0, 11.4]
    """
    array = np.asarray(values, dtype=np.float64)
    if np.isin(array, (0.0, 1.0)).all():
        return wilson_interval(int(array.sum()), len(array))
    return interval(100 * (resampled_sums(array[:, None])[:, 0] / len(array)))


def wilson_interval(successes: int, n: int) -> tuple[float, float]:
    """Return the 95% Wilson score interval of a proportion, in percent (Wilson 1927).

    For p = s/n and z = 1.96: (p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n). Unlike a
    bootstrap interval it is not empty if no example, or every example, is a success.

    >>> [round(end, 2) for end in wilson_interval(5, 10)]
    [23.66, 76.34]
    """
    share, square = successes / n, _Z * _Z
    centre = share + square / (2 * n)
    half = _Z * math.sqrt(share * (1 - share) / n + square / (4 * n * n))
    scale = 1 + square / n
    low = (centre - half) / scale if successes else 0.0
    high = (centre + half) / scale if successes < n else 1.0
    return 100 * low, 100 * high


def interval(drawn: Float64Array) -> tuple[float, float]:
    """Return the middle 95% of a metric over bootstrap resamples."""
    low, high = np.percentile(drawn, _COVERED)
    return float(low), float(high)


def resampled_sums(values: Float64Array, resamples: int = RESAMPLES) -> Float64Array:
    """Return sums of `values` (n, m) over bootstrap resamples of n examples; (resamples, m).

    Resamples depend on n only, so two systems on the same examples get the same ones.
    """
    count = len(values)
    generator = np.random.default_rng(SEED)
    sums = np.empty((resamples, values.shape[1]))
    for row in range(resamples):
        times = np.bincount(generator.integers(0, count, count), minlength=count)
        sums[row] = times @ values
    return sums


def evaluation_signature(
    task: str,
    *,
    language: str,
    data: str,
    shots: int,
    infer: str,
    model: Mapping[str, str],
    packages: Iterable[str] = ("torch", "transformers"),
    **settings: object,
) -> str:
    """Return the signature of scores: `mt|lang:en-fr|data:…|shots:5|infer:…|…|modtok:…`.

    `data` is the digest of the examples and shots, `shots` their number before any are dropped,
    `model` the digest `Models.signed`. `settings` follow, then the versions of `packages`, which
    can change scores. All of it is known before anything is evaluated; `of_metric` adds what
    differs between the metrics.
    """
    fields = {"lang": language, "data": data, "shots": shots, "infer": infer, **model, **settings}
    for package in packages:
        with suppress(PackageNotFoundError):
            fields[package] = version(package)
    # `src|tgt` has the separator of fields.
    return signature(task, **{name: str(each).replace("|", "/") for name, each in fields.items()})


def of_metric(signature: str, **fields: object) -> str:
    """Return the signature of one metric, from the signature of the evaluation.

    >>> of_metric("mt|data:a|modtok:0", metric="BLEU", norm="none")
    'mt|data:a|modtok:0|metric:BLEU|norm:none'
    """
    parts = (f"{name}:{str(each).replace('|', '/')}" for name, each in fields.items())
    return "|".join((signature, *parts))


def data_digest(parts: Iterable[str]) -> str:
    """Return the digest of the texts that an evaluation read, in order."""
    return digest(*(part.encode("utf-8", "surrogatepass") for part in parts))


class Kept:
    """Rows of earlier calls in a directory, by signature, and the rows of this call so far.

    What is evaluated is saved at once, so that a call that was stopped goes on where it was.

    Attributes:
        reused: number of evaluations that were found.

    Args:
        directory: of files of rows; None keeps nothing and finds nothing.
        own: file of this call there, removed by `close`; None if another process writes it.
    """

    def __init__(self, directory: Path | None = None, own: str | None = None) -> None:
        self._file = directory / own if directory is not None and own is not None else None
        self._rows: dict[str, dict[str, dict[str, Any]]] = {}
        self._new: list[Mapping[str, Any]] = []
        self.reused = 0
        for path in sorted(directory.glob("*.jsonl")) if directory is not None else ():
            group: dict[str, dict[str, dict[str, Any]]] = {}
            for row in _rows_of(path):
                common = row["signature"].partition("|metric:")[0]
                group.setdefault(common, {})[row["signature"]] = row
            self._rows |= group  # a file has all rows of an evaluation
            if path == self._file:
                self._new += _rows_of(path)

    def find(self, signature: str) -> list[dict[str, Any]] | None:
        """Return the rows of an evaluation with this signature, of `evaluation_signature`."""
        rows = self._rows.get(signature)
        self.reused += rows is not None
        return None if rows is None else list(rows.values())

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Save what was evaluated, with what this call saved before."""
        self._new += rows
        if self._file is not None:
            self._file.parent.mkdir(exist_ok=True)
            write_lines(self._file, self._new)

    def close(self) -> None:
        """Remove the file of this call; its rows are elsewhere."""
        if self._file is not None:
            self._file.unlink(missing_ok=True)


def _rows_of(path: Path) -> list[dict[str, Any]]:
    """Rows with a signature; none of a file of anything else, which `modtok report` names."""
    try:
        rows = [orjson.loads(line) for line in read_bounded(path).splitlines()]
    except (OSError, ValueError, ModtokError):
        return []
    return [row for row in rows if isinstance(row, dict) and isinstance(row.get("signature"), str)]


_REMEDY = "pass a file written by modtok eval --examples"
_MOST = 1e100


def read_examples(path: Path) -> list[dict[str, Any]]:
    """Read examples that `write_lines` wrote."""
    rows = []
    for number, row in json_lines(path, _REMEDY):
        if not _is_example(row):
            raise ModtokError(
                'not an example with "task", "language", "id", "scores"',
                where=f"{path}:{number}",
                remedy=_REMEDY,
            )
        rows.append(row)
    if not rows:
        raise ModtokError("contains no examples", where=path, remedy=_REMEDY)
    return rows


def _is_example(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and all(isinstance(row.get(name), str) for name in ("task", "language", "id"))
        and all(isinstance(row.get(name, ""), str) for name in ("output", "reference"))
        and all(_is_number(row.get(name, 1)) and row.get(name, 1) > 0 for name in ("bits", "bytes"))
        and isinstance(row.get("scores"), dict)
        # Fractions, or values of a task of lm-eval; no value may overflow a mean.
        and all(map(_is_score, row["scores"].values()))
        and isinstance(row.get("metrics", {}), dict)
        and all(map(_is_declaration, row.get("metrics", {}).values()))
    )


def _is_score(value: Any) -> bool:
    if isinstance(value, list):
        return len(value) == 2 and all(map(_is_number, value)) and value[1] > 0
    return _is_number(value)


def _is_declaration(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and value.keys() == {*vars(ACCURACY), "value"}
        and isinstance(value["aggregation"], str)
        and isinstance(value["higher_is_better"], bool | None)
        and _is_number(value["scale"])
        and (value["value"] is None or _is_number(value["value"]))
    )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < _MOST
