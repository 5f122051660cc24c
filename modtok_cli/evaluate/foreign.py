"""Tasks of lm-eval that are not ours, run as they are."""

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
from modtok_cli.inference.model import SlicedModel

PACKAGES = ("torch", "transformers", "lm-eval")
# lm-eval's metrics that are shares of 1.
_SHARES = frozenset(
    {"acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "f1", "em", "mcc"}
)


def ask_foreign(
    model: SlicedModel,
    infer: str,
    mode: str,
    language: str,
    names: Sequence[str],
    *,
    include: Path | None = None,
    shots: int | None = None,
    batch: int = 32,
    limit: int | None = None,
    progress: Progress = SILENT,
) -> Evaluation:
    """Run tasks of lm-eval by name, from YAML files under `include` or from its own index.

    Shares of 1 (accuracies) are given times 100 as ours are, other metrics as they are.

    Raises:
        UsageError: no task has that name.
        ModtokError: its data cannot be had.
    """
    from modtok_cli.evaluate.harness import find_tasks, run_tasks
    from modtok_cli.evaluate.lm import ModtokLM

    evaluation = Evaluation()
    for name, task in find_tasks(names, include=include, shots=shots).items():
        lm = ModtokLM(model, batch=batch, progress=progress, label=f"{language} {name}")
        outcome = run_tasks(lm, {name: task}, limit=limit)
        samples = outcome.samples[name]
        sheet = ResultBuilder(
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
            if metric in _SHARES and len(values) == len(samples):
                sheet.add_mean(metric, [float(each) for each in values])
            else:
                scale = 100 if metric in _SHARES else 1
                sheet.add(metric, scale * value, None)
        evaluation.results += sheet.results
        evaluation.examples += [_example(name, language, row) for row in samples]
    return evaluation


def _example(task: str, language: str, row: Mapping[str, Any]) -> dict[str, Any]:
    scores = {
        name: float(row[name]) for name in row["metrics"] if isinstance(row[name], (int, float))
    }
    return example(task, language, str(row["doc_id"]), scores, target=str(row["target"]))
