"""What an evaluation gives: scores with their intervals, a row per example, a signature.

Every metric is on the scale of 0 to 100, as in the paper; the `scores` of a single example
are shares of 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import orjson

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import atomic_file
from modtok_cli.base.signature import digest, signature
from modtok_cli.evaluate.json_lines import json_lines

if TYPE_CHECKING:
    from modtok_cli.inference.model import SlicedModel

Floats = npt.NDArray[np.float64]

RESAMPLES = 1000
SEED = 12345  # sacreBLEU's own, so that its intervals are the same wherever it draws them
_COVERED = (2.5, 97.5)


@dataclass(frozen=True)
class Result:
    """One number.

    Attributes:
        task: "arc_easy", "mt", "sum", …
        language: "fr", or a pair as "en-fr".
        metric: "acc", "acc_norm", "BLEU", "rougeL", …
        value: on the scale of 0 to 100.
        low, high: ends of its 95% bootstrap interval, None where there is none.
        n: examples.
        shots: examples shown before each question.
        normalization: what likelihoods are divided by ("characters", …), or how texts are
            compared; "none".
        infer: the inference mode, as --infer names it.
        signature: what the number can be traced by; see `evaluation_signature`.
        facts: anything else that the row should hold.
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

    def as_row(self) -> dict[str, Any]:
        """As JSON has it and the table shows it."""
        own = {name: value for name, value in self.__dict__.items() if name != "facts"}
        return {**own, **self.facts}


@dataclass
class Evaluation:
    """Everything that came of one evaluation.

    Attributes:
        results: the numbers.
        examples: a row per example, see `example`.
        skipped: what could not be evaluated and why, a line each; not empty means that the
            evaluation is incomplete.
    """

    results: list[Result] = field(default_factory=list)
    examples: list[dict[str, Any]] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def require_complete(self) -> None:
        """Say what is missing, after what is there was printed.

        Raises:
            ModtokError: something was skipped.
        """
        if self.skipped:
            raise ModtokError(f"incomplete: {'; '.join(self.skipped)}")


@dataclass
class ResultBuilder:
    """Results of one set of examples: what their rows have in common is said once.

    Attributes:
        signed: further fields of the signature, see `evaluation_signature`.
        facts: further keys of the rows.
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
        """A number and its interval, if it has one, on the scale of 0 to 100."""
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
            )
        )

    def add_mean(self, metric: str, values: Sequence[float], **signed: Any) -> None:
        """100 × the mean of a score of every example."""
        self.add(metric, 100 * float(np.mean(values)), mean_interval(values), **signed)


def example(
    task: str, language: str, name: str, scores: Mapping[str, float], **facts: Any
) -> dict[str, Any]:
    """The row of one example: what `modtok eval compare` reads.

    `name` tells it from the others of its task and language, and is the same for every
    model; `scores` are shares of 1 whose mean times 100 is the metric. Translations hold
    "output" and "reference", from which their corpus metrics are computed.
    """
    return {"task": task, "language": language, "id": name, "scores": dict(scores), **facts}


def mean_interval(values: Sequence[float] | Floats, *, seed: int = SEED) -> tuple[float, float]:
    """Ends of the 95% bootstrap interval of 100 × mean, drawing examples with replacement.

    >>> mean_interval([1.0, 1.0, 1.0])
    (100.0, 100.0)
    """
    drawn = bootstrap_means(np.asarray(values, dtype=np.float64)[:, None], seed=seed)[:, 0]
    return interval(100 * drawn)


def interval(drawn: Floats) -> tuple[float, float]:
    """Ends of the middle 95% of a metric over bootstrap draws."""
    low, high = np.percentile(drawn, _COVERED)
    return float(low), float(high)


def bootstrap_means(values: Floats, *, resamples: int = RESAMPLES, seed: int = SEED) -> Floats:
    """Means of `values` (n, m) over `resamples` draws of n examples; (resamples, m).

    The draws depend on n and the seed alone, so that two systems on the same examples are
    drawn alike.
    """
    return resampled_sums(values, resamples=resamples, seed=seed) / len(values)


def resampled_sums(values: Floats, *, resamples: int = RESAMPLES, seed: int = SEED) -> Floats:
    """As `bootstrap_means`, the sums; (resamples, m)."""
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
    """What a score is traced by: `mt|lang:en-fr|data:…|shots:5|norm:…|infer:…|…|modtok:…`.

    `data` is the digest of the examples and shots, `checkpoint` that of `checkpoint_digest`;
    `packages` are those whose versions may move the number; `settings` stand before them.
    """
    fields: list[tuple[str, object]] = [
        ("lang", language),
        ("data", data),
        ("shots", shots),
        ("norm", normalization),
        ("infer", _clean(infer)),
        ("checkpoint", checkpoint),
        *((name, _clean(str(value))) for name, value in settings.items()),
    ]
    for package in packages:
        try:
            fields.append((package, version(package)))
        except PackageNotFoundError:
            continue
    return signature(task, fields)


def _clean(value: str) -> str:
    """`src|tgt` holds what parts the fields of a signature."""
    return value.replace("|", "/")


def data_digest(parts: Iterable[str]) -> str:
    """Fingerprint of the texts that an evaluation read, in their order."""
    return digest(*(part.encode("utf-8", "surrogatepass") for part in parts))


def checkpoint_digest(model: SlicedModel) -> str:
    """`NAME@STEP/DIGEST` of the weights a model was loaded from.

    The digest is over the checksums that the checkpoint keeps of its files; a slice is named
    by the run and the tokenizer that it is cut from.
    """
    from modtok_cli.inference.sources import RunSource, SliceSource

    source = model.source
    if isinstance(source, RunSource):
        run = source.run
        files = orjson.dumps(run.state.get("files"), option=orjson.OPT_SORT_KEYS)
        return f"{run.path.name}@{run.step}/{digest(files)}"
    assert isinstance(source, SliceSource)
    facts = source.facts
    return f"{Path(facts.run).name}@{facts.step}/slice-{facts.signature}"


def write_examples(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write example rows as JSON lines, whole or not at all.

    Raises:
        ModtokError: the file system refused.
    """
    with atomic_file(path) as beside, open(beside, "wb") as file:
        for row in rows:
            file.write(orjson.dumps(row, option=_JSON))


_REMEDY = "give a file that modtok eval --examples wrote"
_MOST = 1e100
_JSON = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY


def read_examples(path: Path) -> list[dict[str, Any]]:
    """Read what `write_examples` wrote.

    Raises:
        ModtokError: it cannot be read, or a line is no example; names it.
    """
    rows = []
    for number, row in json_lines(path, _REMEDY):
        if not _is_example(row):
            raise ModtokError(
                'no example with "task", "language", "id", "scores"',
                where=f"{path}:{number}",
                remedy=_REMEDY,
            )
        rows.append(row)
    if not rows:
        raise ModtokError("holds no examples", where=str(path), remedy=_REMEDY)
    return rows


def _is_example(row: Any) -> bool:
    return (
        isinstance(row, dict)
        and all(isinstance(row.get(name), str) for name in ("task", "language", "id"))
        and all(isinstance(row.get(name, ""), str) for name in ("output", "reference"))
        and isinstance(row.get("scores"), dict)
        # Scores are shares, or what a task of lm-eval gives: no number that a mean overflows.
        and all(
            type(value) in (int, float) and abs(value) < _MOST for value in row["scores"].values()
        )
    )
