"""Tasks of lm-eval that are not suites of this package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.results import (
    Evaluation,
    ResultBuilder,
    checkpoint_digest,
    data_digest,
    example,
)
from modtok_cli.inference.run.model import SlicedModel
from modtok_cli.inference.run.processes import ALONE, Processes

PACKAGES = ("torch", "transformers", "lm-eval")
# Metrics of lm-eval that are fractions of 1.
_FRACTIONS = frozenset(
    {"acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "f1", "em", "mcc"}
)


def run_external_tasks(
    model: SlicedModel,
    infer: str,
    mode: str,
    language: str,
    names: Sequence[str],
    *,
    include: Path | None = None,
    allow_code: bool = False,
    shots: int | None = None,
    batch_size: int = 32,
    limit: int | None = None,
    processes: Processes = ALONE,
    progress: Progress = SILENT,
) -> Evaluation:
    """Run tasks of lm-eval by name, from YAML files in `include` or from lm-eval's own index.

    Fractions of 1 (accuracies) are multiplied by 100; other metrics are reported unchanged.

    Raises:
        UsageError: no task has that name.
        ModtokError: its data is not available, or it contains code and `allow_code` is not set.
    """
    from modtok_cli.evaluate.harness import find_tasks, run_tasks
    from modtok_cli.evaluate.lm import ModtokLM

    evaluation = Evaluation()
    for name, task in find_tasks(
        names, include=include, allow_code=allow_code, shots=shots
    ).items():
        lm = ModtokLM(
            model,
            batch_size=batch_size,
            processes=processes,
            progress=progress,
            label=f"{language} {name}",
        )
        outcome = run_tasks(lm, {name: task}, limit=limit)
        samples = outcome.samples[name]
        builder = ResultBuilder(
            name,
            language,
            len(samples),
            int(outcome.shots.get(name, 0)),
            mode,
            signed={
                "data": data_digest(str(row["doc_hash"]) for row in samples),
                "infer": infer,
                "checkpoint": checkpoint_digest(model),
                "packages": PACKAGES,
            },
            facts={"truncated": lm.truncated},
        )
        for metric, value in outcome.scores[name].items():
            values = [row[metric] for row in samples if isinstance(row.get(metric), (int, float))]
            if metric in _FRACTIONS and len(values) == len(samples):
                builder.add_mean(metric, [float(each) for each in values])
            else:
                scale = 100 if metric in _FRACTIONS else 1
                builder.add(metric, scale * value, None)
        evaluation.results += builder.results
        evaluation.examples += [_example(name, language, row) for row in samples]
    return evaluation


def _example(task: str, language: str, row: Mapping[str, Any]) -> dict[str, Any]:
    scores = {
        name: float(row[name]) for name in row["metrics"] if isinstance(row[name], (int, float))
    }
    return example(task, language, str(row["doc_id"]), scores, target=str(row["target"]))
