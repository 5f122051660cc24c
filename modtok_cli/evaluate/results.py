"""Results of an evaluation: scores with intervals, one row per example, and a signature.

Metrics are on a scale of 0 to 100, as in the paper. The `scores` of a single example are fractions
of 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from modtok_cli.base.arrays import Float64Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.signature import digest, signature
from modtok_cli.evaluate.task_files import json_lines

if TYPE_CHECKING:
    from modtok_cli.inference.load import Source
    from modtok_cli.inference.run.model import SlicedModel


MCQ, MT, SUM, BPB = "mcq", "mt", "sum", "bpb"
"""Names of the kinds of tasks."""
RESAMPLES = 1000
SEED = 12345  # the default of sacreBLEU
_COVERED = (2.5, 97.5)
_Z = 1.959963984540054  # 97.5% quantile of the normal distribution


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
        shots: number of few-shot examples.
        normalization: divisor of likelihoods ("characters", …) or how texts are compared; "none".
        infer: inference mode, as --infer names it.
        signature: what the score depends on, see `evaluation_signature`.
        facts: further fields of the row.
        checkpoint: run, step and digest, see `source_digest`.
    """

    task: str
    language: str
    metric: str
    value: float
    low: float | None
    high: float | None
    n: int
    shots: int
    normalization: str
    infer: str
    signature: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    checkpoint: str | None = None

    def as_row(self) -> dict[str, Any]:
        """Row for JSON output and tables."""
        own = {name: value for name, value in self.__dict__.items() if name != "facts"}
        return {**own, **self.facts}


@dataclass
class Evaluation:
    """Everything that an evaluation produced.

    Attributes:
        results: the scores.
        examples: one row per example, see `example`.
        skipped: what could not be evaluated and why. If not empty, the evaluation is incomplete.
    """

    results: list[Result] = field(default_factory=list)
    examples: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def require_complete(self) -> None:
        """Report what is missing; called after the results are printed."""
        if self.skipped:
            raise ModtokError(f"incomplete: {'; '.join(self.skipped)}")


@dataclass
class ResultBuilder:
    """Collects the results of one set of examples, which share most fields.

    Attributes:
        signed: further fields of the signature, see `evaluation_signature`.
        facts: further fields of the rows.
    """

    task: str
    language: str
    n: int
    shots: int
    infer: str
    signed: Mapping[str, Any]
    facts: Mapping[str, Any]
    results: list[Result] = field(default_factory=list)

    def add(
        self,
        metric: str,
        value: float,
        bounds: tuple[float, float] | None,
        *,
        normalization: str = "none",
        **signed: object,
    ) -> None:
        """Add a score and its interval, from 0 to 100."""
        fields: dict[str, Any] = {**self.signed, **signed}
        sign = evaluation_signature(
            self.task,
            language=self.language,
            shots=self.shots,
            normalization=normalization,
            **fields,
        )
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
                self.facts,
                self.signed.get("checkpoint"),
            )
        )

    def add_mean(self, metric: str, values: Sequence[float], **signed: Any) -> None:
        """Add 100 times the mean of the examples' scores, with its interval."""
        self.add(metric, 100 * float(np.mean(values)), mean_interval(values), **signed)


def example(
    task: str, language: str, name: str, scores: Mapping[str, float], **facts: Any
) -> dict[str, Any]:
    """Row of one example, as `modtok eval compare` reads it.

    `name` is unique in its task and language and equal for every model. `scores` are fractions of
    1; 100 times their mean is the metric. Translations have "output" and "reference", from which
    the corpus metrics are computed.
    """
    return {"task": task, "language": language, "id": name, "scores": dict(scores), **facts}


def mean_interval(
    values: Sequence[float] | Float64Array, *, seed: int = SEED
) -> tuple[float, float]:
    """95% interval of 100 times the mean.

    The Wilson score interval if all values are 0 or 1; a bootstrap over examples otherwise.

    >>> [round(end, 1) for end in mean_interval([0.0] * 30)]
    [0.0, 11.4]
    """
    array = np.asarray(values, dtype=np.float64)
    if np.isin(array, (0.0, 1.0)).all():
        return wilson_interval(int(array.sum()), len(array))
    return interval(100 * bootstrap_means(array[:, None], seed=seed)[:, 0])


def wilson_interval(successes: int, n: int) -> tuple[float, float]:
    """95% Wilson score interval of a proportion, in percent (Wilson 1927).

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
    """Middle 95% of a metric over bootstrap resamples."""
    low, high = np.percentile(drawn, _COVERED)
    return float(low), float(high)


def student_interval(values: Sequence[float]) -> tuple[float, float]:
    """Student's 95% interval of the mean of two or more values.

    >>> [round(end, 2) for end in student_interval([1.0, 2.0, 3.0])]
    [-0.48, 4.48]
    """
    from scipy.stats import t

    half = float(t.ppf(_COVERED[1] / 100, len(values) - 1))
    half *= float(np.std(values, ddof=1)) / math.sqrt(len(values))
    mean = float(np.mean(values))
    return mean - half, mean + half


def bootstrap_means(
    values: Float64Array, *, resamples: int = RESAMPLES, seed: int = SEED
) -> Float64Array:
    """Means of `values` (n, m) over `resamples` resamples of n examples; (resamples, m).

    Resamples depend on n and the seed only, so two systems on the same examples get the same ones.
    """
    return resampled_sums(values, resamples=resamples, seed=seed) / len(values)


def resampled_sums(
    values: Float64Array, *, resamples: int = RESAMPLES, seed: int = SEED
) -> Float64Array:
    """As `bootstrap_means`, but sums; (resamples, m)."""
    count = len(values)
    generator = np.random.default_rng(seed)
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
    normalization: str,
    infer: str,
    checkpoint: str,
    packages: Iterable[str] = ("torch", "transformers"),
    **settings: object,
) -> str:
    """What a score depends on: `mt|lang:en-fr|data:…|shots:5|norm:…|infer:…|…|modtok:…`.

    `data` is the digest of the examples and shots, `checkpoint` that of `source_digest`.
    `settings` follow, then the versions of `packages`, which can change the score.
    """
    fields = {
        "lang": language,
        "data": data,
        "shots": shots,
        "norm": normalization,
        "infer": infer,
        "checkpoint": checkpoint,
        **settings,
    }
    for package in packages:
        with suppress(PackageNotFoundError):
            fields[package] = version(package)
    # `src|tgt` has the separator of fields.
    return signature(task, **{name: str(each).replace("|", "/") for name, each in fields.items()})


def data_digest(parts: Iterable[str]) -> str:
    """Digest of the texts that an evaluation read, in order."""
    return digest(*(part.encode("utf-8", "surrogatepass") for part in parts))


def checkpoint_digest(model: SlicedModel) -> str:
    """`source_digest` of what a model comes from."""
    return source_digest(model.source)


def source_digest(source: Source) -> str:
    """`NAME@STEP/DIGEST` of the weights of a run or a slice; `NAME/DIGEST` of another model.

    The digest is over the checkpoint's checksums. A slice is named by its run, and by the
    signature of the tokenizer it was extracted with.
    """
    from modtok_cli.inference.hf.source import HfSource
    from modtok_cli.inference.slice.directory import SliceSource
    from modtok_cli.inference.slice.run import RunSource

    if isinstance(source, HfSource):
        return source.signature
    if isinstance(source, RunSource):
        files = orjson.dumps(source.state.get("files"), option=orjson.OPT_SORT_KEYS)
        return f"{source.path.name}@{source.step}/{digest(files)}"
    assert isinstance(source, SliceSource)
    facts = source.facts
    return f"{Path(facts.run).name}@{facts.step}/slice-{facts.signature}"


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
        and all(map(_is_number, row["scores"].values()))
    )


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) < _MOST
