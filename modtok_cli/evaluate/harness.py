"""lm-eval, run quietly, and with our own tasks or with its index."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError


@dataclass(frozen=True)
class Outcome:
    """What lm-eval found out.

    Attributes:
        scores: aggregated metrics of each task, without its standard errors.
        samples: a row per example of each task.
        shots: examples shown, by task.
    """

    scores: Mapping[str, Mapping[str, float]]
    samples: Mapping[str, Sequence[Mapping[str, Any]]]
    shots: Mapping[str, int]


@contextmanager
def _quiet() -> Iterator[None]:
    """Without lm-eval's bars and notes; ours say what is going on."""
    import lm_eval.api.task as tasks

    logger, bars = logging.getLogger("lm_eval"), tasks.tqdm
    level = logger.level
    logger.setLevel(logging.ERROR)
    tasks.tqdm = partial(bars, disable=True)
    try:
        yield
    finally:
        logger.setLevel(level)
        tasks.tqdm = bars


def run_tasks(lm: Any, tasks: Mapping[str, Any], *, limit: int | None = None) -> Outcome:
    """Run task objects on a model, by lm-eval's own evaluator."""
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
            key.removesuffix(",none"): float(value)
            for key, value in found.items()
            if isinstance(value, (int, float)) and "_stderr" not in key and key != "sample_len"
        }
        for name, found in answer["results"].items()
    }
    return Outcome(scores, answer["samples"], answer["n-shot"])


def find_tasks(
    names: Sequence[str], *, include: Path | None = None, shots: int | None = None
) -> dict[str, Any]:
    """Tasks of lm-eval by name: from YAML files under `include`, else from its own index.

    The index takes some 14 s to build and is only asked for what `include` has not.

    Raises:
        UsageError: no task has that name.
        ModtokError: a task cannot be loaded, for want of its data say.
    """
    from lm_eval.tasks import TaskManager

    with _quiet():
        folder = [str(include)] if include is not None else None
        manager = TaskManager(include_path=folder, include_defaults=False)
        if any(name not in manager.all_tasks for name in names):
            manager = TaskManager(include_path=folder)
        unknown = [name for name in names if name not in manager.all_tasks]
        if unknown:
            raise UsageError(
                f"no task is called {unknown[0]!r}",
                where="--tasks",
                remedy="name one of ours, one of lm-eval's, or its folder with --include",
            )
        try:
            found: dict[str, Any] = manager.load(list(names))["tasks"]
        except Exception as error:  # whatever a task's own code raises
            raise ModtokError(
                f"lm-eval cannot load {','.join(names)} ({' '.join(str(error).split())[:300]})",
                remedy="its data comes from the hub; name local tasks with --include",
            ) from error
        for task in found.values():
            if shots is not None and task.get_config("num_fewshot") != 0:
                task.set_config(key="num_fewshot", value=shots)
    return found
