"""Run tasks of lm-eval without its output: our objects, and its own and users' tasks by name."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from math import isfinite
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.models import Models
from modtok_cli.evaluate.modes import Infer
from modtok_cli.evaluate.questions import McqSettings
from modtok_cli.evaluate.results import (
    ACCURACY,
    AGGREGATES,
    Evaluation,
    Metric,
    ResultBuilder,
    data_digest,
    evaluation_signature,
    example,
    mean_interval,
)

# Metrics of lm-eval that are fractions of 1.
_FRACTIONS = frozenset(
    {"acc", "acc_norm", "acc_bytes", "acc_mutual_info", "exact_match", "f1", "em", "mcc"}
)


def run_external_tasks(
    models: Models,
    infer: Infer,
    mode: str,
    language: str,
    names: Sequence[str],
    settings: McqSettings,
    include: Path | None,
) -> Evaluation:
    """Run tasks of lm-eval by name, from YAML files in `include` or from lm-eval's own index.

    Fractions of 1 (accuracies) are multiplied by 100; other metrics are reported unchanged. Rows
    say so (`scale`), and what the task declares: `aggregation` and `higher_is_better`.
    """
    from modtok_cli.evaluate.lm import ModtokLM

    evaluation, model = Evaluation(), models.of(infer)
    tasks = find_tasks(
        names, include=include, allow_code=settings.allow_code, shots=settings.shots,
        progress=models.progress,
    )  # fmt: skip
    for name, task in tasks.items():
        lm = ModtokLM(
            model,
            batch_size=settings.batch_size,
            processes=models.processes,
            progress=models.progress,
            label=f"{language} {name}",
        )
        outcome = run_tasks(lm, {name: task}, limit=settings.limit)
        samples = _by_document(outcome.samples[name])
        shots = int(outcome.shots.get(name, 0))
        sign = evaluation_signature(
            name,
            language=language,
            data=data_digest(str(row["doc_hash"]) for row, _ in samples),
            shots=shots,
            infer=f"{mode}:{infer}",
            model=models.signed,
            packages=("torch", "transformers", "lm-eval"),
        )
        facts = {"truncated": lm.truncated}
        builder = ResultBuilder(
            name, language, len(samples), shots, mode, sign, models.labels, facts
        )
        metrics = {}
        for metric, value in outcome.scores[name].items():
            declared = _declaration(task, metric.partition(",")[0])
            values = [scores[metric] for _, scores in samples if metric in scores]
            # Of fractions that are a mean, in the rows of all documents.
            plain = declared == ACCURACY and len(values) == len(samples)
            bounds = mean_interval(values) if plain else None
            builder.add(metric, declared.scale * value, bounds, facts=vars(declared))
            whole = declared.scale * value if isfinite(value) else None
            metrics[metric] = {**vars(declared), "value": whole}
        evaluation.results += builder.results
        evaluation.examples += [
            example(
                name, language, str(row["doc_id"]), scores,
                target=str(row["target"]), metrics=metrics,
            )
            for row, scores in samples
        ]  # fmt: skip
    return evaluation


def _declaration(task: Any, metric: str) -> Metric:
    """The declaration of a metric in a task of lm-eval: aggregation, and whether more is better."""
    from lm_eval.api.registry import get_aggregation

    aggregate = task.aggregation().get(metric, get_aggregation("mean"))  # as lm-eval does
    known = [name for name in AGGREGATES if get_aggregation(name) is aggregate]
    name = known[0] if known else getattr(aggregate, "__name__", str(aggregate))
    better = task.higher_is_better().get(metric)
    better = better if isinstance(better, bool) else None
    return Metric(name, better, 100 if metric in _FRACTIONS else 1)


Scores = dict[str, Any]  # numbers, and pairs of a log-likelihood and its weight


def _by_document(rows: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], Scores]]:
    """A row of each document with its scores; lm-eval has one for each filter of the answers."""
    found: dict[Any, tuple[Mapping[str, Any], Scores]] = {}
    for row in rows:
        scores = found.setdefault(row["doc_id"], (row, {}))[1]
        for metric in row["metrics"]:
            value, name = row[metric], _metric_name(f"{metric},{row['filter']}")
            if isinstance(value, (int, float)):
                if isfinite(value):  # others are no JSON; compare tells of documents without one
                    scores[name] = float(value)
            elif _is_pair(value):
                scores[name] = [float(value[0]), float(value[1])]
    return list(found.values())


def _is_pair(value: Any) -> bool:
    return (
        isinstance(value, (tuple, list))
        and len(value) == 2
        and all(isinstance(part, (int, float)) for part in value)
        and value[1] > 0
    )


def _metric_name(name: str) -> str:
    """Return the name of a metric of lm-eval, with its filter if the task has one.

    >>> _metric_name("exact_match,none"), _metric_name("exact_match,strict-match")
    ('exact_match', 'exact_match,strict-match')
    """
    return name.removesuffix(",none")


@dataclass(frozen=True)
class HarnessOutcome:
    """Results of lm-eval.

    Attributes:
        scores: aggregated metrics of each task, without standard errors.
        samples: one row per example of each task.
        shots: number of few-shot examples of each task.
    """

    scores: Mapping[str, Mapping[str, float]]
    samples: Mapping[str, Sequence[Mapping[str, Any]]]
    shots: Mapping[str, int]


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress lm-eval's progress bars and log messages, and sandbox its templates."""
    import lm_eval.api.task as tasks
    from lm_eval import utils

    logger, bars, templates = logging.getLogger("lm_eval"), tasks.tqdm, utils.env
    level = logger.level
    logger.setLevel(logging.ERROR)
    tasks.tqdm = partial(bars, disable=True)
    utils.env = _sandboxed(templates)
    try:
        yield
    finally:
        logger.setLevel(level)
        tasks.tqdm, utils.env = bars, templates


def _sandboxed(templates: Any) -> Any:
    """Return the same Jinja environment, without access to attributes that lead to code."""
    from jinja2.sandbox import SandboxedEnvironment

    sandbox = SandboxedEnvironment(
        loader=templates.loader,
        undefined=templates.undefined,
        keep_trailing_newline=templates.keep_trailing_newline,
    )
    sandbox.filters.update(templates.filters)
    return sandbox


def run_tasks(lm: Any, tasks: Mapping[str, Any], *, limit: int | None = None) -> HarnessOutcome:
    """Run task objects on a model with lm-eval's evaluator."""
    from lm_eval.evaluator import evaluate

    with _quiet():
        for task in tasks.values():
            if task.get_config("num_fewshot") is None:
                task.set_config(key="num_fewshot", value=0)
            task.set_fewshot_seed(seed=1234)
        answer = evaluate(
            lm=lm,
            task_dict={"tasks": dict(tasks), "groups": {}, "group_map": {}},
            limit=limit,
            bootstrap_iters=0,
            log_samples=True,
        )
    scores = {
        name: {
            _metric_name(key): float(value)
            for key, value in metrics.items()
            if isinstance(value, (int, float)) and "_stderr" not in key and key != "sample_len"
        }
        for name, metrics in answer["results"].items()
    }
    return HarnessOutcome(scores, answer["samples"], answer["n-shot"])


def find_tasks(
    names: Sequence[str],
    *,
    include: Path | None = None,
    allow_code: bool = False,
    shots: int | None = None,
    progress: Progress = SILENT,
) -> dict[str, Any]:
    """Return tasks of lm-eval by name: from YAML files in `include`, else from lm-eval's own index.

    The index takes about 14 s to build, once a process, and is used only for names that `include`
    lacks.
    """
    from lm_eval.tasks import TaskManager

    with _quiet(), nullcontext() if allow_code else _without_code():
        folder = [str(include)] if include is not None else None
        manager = TaskManager(include_path=folder, include_defaults=False)
        if others := [name for name in names if name not in manager.all_tasks]:
            where = "lm-eval's index of tasks, which can take a minute to read"
            progress.note(f"looking for {', '.join(others)} in {where}")
            manager = _all_tasks(include, allow_code)
        unknown = [name for name in names if name not in manager.all_tasks]
        if unknown:
            raise UsageError(
                f"unknown task {unknown[0]!r}",
                where="--tasks",
                remedy="use a suite, a task of lm-eval, or pass its directory with --include",
            )
        try:
            tasks: dict[str, Any] = manager.load(list(names))["tasks"]
        except ModtokError:
            raise
        except Exception as error:  # any error of lm-eval or of the task's data
            raise ModtokError(
                f"lm-eval cannot load {','.join(names)} ({' '.join(str(error).split())[:300]})",
                remedy="check the task; its data may have to be downloaded from the hub",
            ) from error
        for task in tasks.values():
            if shots is not None and task.get_config("num_fewshot") != 0:
                task.set_config(key="num_fewshot", value=shots)
    return tasks


@cache
def _all_tasks(include: Path | None, allow_code: bool) -> Any:
    """Return the index of lm-eval's own tasks and of the tasks in a directory."""
    from lm_eval.tasks import TaskManager

    return TaskManager(include_path=None if include is None else [str(include)])


@contextmanager
def _without_code() -> Iterator[None]:
    """Refuse task files that run code: `!function`, and metrics that `evaluate` would download.

    lm-eval's own task files are part of the installed package and may use `!function`.

    Raises (within):
        ModtokError: a task file runs code.
    """
    import lm_eval
    import lm_eval.api.task as tasks
    from lm_eval.tasks import _yaml_loader as loader

    own = Path(lm_eval.__file__).parent / "tasks"
    import_function, get_metric = loader._import_func_in_yml, tasks.get_metric

    def import_own(name: str, directory: Path) -> Any:
        if not Path(directory).resolve().is_relative_to(own.resolve()):
            raise _runs_code(f"!function {name}", str(directory))
        return import_function(name, directory)

    def registered_metric(name: str, hf_evaluate_metric: bool = False) -> Any:
        from lm_eval.api.registry import metric_registry

        if hf_evaluate_metric or name not in metric_registry:
            raise _runs_code(f"metric {name} of the package evaluate", "")
        return get_metric(name, hf_evaluate_metric)

    loader._import_func_in_yml, tasks.get_metric = import_own, registered_metric
    try:
        yield
    finally:
        loader._import_func_in_yml, tasks.get_metric = import_function, get_metric


def _runs_code(what: str, where: str) -> ModtokError:
    return ModtokError(
        f"the task runs code ({what})", where=where, remedy="pass --allow-code if you trust it"
    )
