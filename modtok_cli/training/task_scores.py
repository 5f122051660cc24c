"""Evaluation of tasks during training, by a `TaskEvaluation`: training knows no tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from modtok_cli.base.errors import ModtokError
from modtok_cli.training.distributed.ranks import gather_json
from modtok_cli.training.run import Run, TaskEvaluation


def check_tasks(run: Run) -> None:
    """Check that there are questions for the tasks of a run; warns about languages without.

    The languages are those of the first stage, here and below.
    """
    if run.config.evaluation.eval_tasks:
        for note in _evaluation(run).check_tasks(run.config, _languages(run)):
            run.progress.warn(f"--eval-tasks: {note}")


def tasks_due(run: Run, step: int) -> bool:
    """Whether tasks are evaluated after `step`."""
    config = run.config
    every = step % config.evaluation.eval_tasks_every == 0 or step == config.last_step
    return bool(config.evaluation.eval_tasks) and every


def evaluate_tasks(run: Run, step: int) -> dict[str, Any] | None:
    """The line of metrics for the checkpoint of `step`, which is on disk. Collective.

    Ranks share the languages, one each at a time: a rank must not be away from the others
    for longer than that. A failure is a warning: training continues.
    """
    ranks, languages = run.ranks, _languages(run)
    scores: dict[str, dict[str, Any]] = {}
    for first in range(0, len(languages), ranks.world):
        mine = languages[first + ranks.rank : first + ranks.rank + 1]
        for rows, failure in gather_json(ranks, _scores(run, step, mine)):
            if failure is not None:
                run.progress.warn(f"step {step:,}: tasks not evaluated: {failure}")
            for language, task, figures in rows:
                scores.setdefault(language, {})[task] = figures
    return {"step": step, "tasks": dict(sorted(scores.items()))} if scores else None


def _evaluation(run: Run) -> TaskEvaluation:
    assert run.tasks is not None  # modtok.pretrain gives it
    return run.tasks


def _languages(run: Run) -> list[str]:
    return list(run.config.evaluation.eval_tasks_langs or run.stages[0].mixture.languages)


def _scores(run: Run, step: int, languages: Sequence[str]) -> tuple[list[Any], str | None]:
    """Language, task and figures of rows, and why there are none."""
    if not languages:
        return [], None
    try:
        rows = _evaluation(run).evaluate_tasks(
            run.config,
            run.directory.path,
            step,
            languages,
            device=run.ranks.device,
            progress=run.progress,
        )
    except ModtokError as error:
        return [], str(error)
    names = ("metric", "value", "low", "high", "chance", "n", "shots")
    return [
        (row["language"], row["task"], {name: row[name] for name in names if name in row})
        for row in rows  # a row may be a mean of tasks
    ], None
