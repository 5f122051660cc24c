"""Evaluation of tasks during training, by `evaluate.mcq`: training knows no tasks."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from modtok_cli.base.errors import ModtokError
from modtok_cli.training.distributed.ranks import gather_json
from modtok_cli.training.run import Run


class Tasks:
    """The tasks of a run, which may be none."""

    def __init__(self, run: Run) -> None:
        self._run = run

    @property
    def _evaluation(self) -> Any:
        return import_module("modtok_cli.evaluate.mcq")  # by name: it builds on training

    def check(self) -> None:
        """Check that there are questions; warns about languages without."""
        config = self._run.config
        if config.eval_tasks:
            for note in self._evaluation.check_tasks(config, self._languages):
                self._run.place.progress.warn(f"--eval-tasks: {note}")

    @property
    def _languages(self) -> list[str]:
        return list(self._run.config.eval_tasks_langs or self._run.texts.mixture.languages)

    def due(self, step: int) -> bool:
        """Whether tasks are evaluated after `step`."""
        config = self._run.config
        every = step % config.eval_tasks_every == 0 or step == config.last_step
        return bool(config.eval_tasks) and every

    def evaluate(self, step: int) -> dict[str, Any] | None:
        """The line of metrics for the checkpoint of `step`, which is on disk. Collective.

        Ranks share the languages, one each at a time: a rank must not be away from the others
        for longer than that. A failure is a warning: training continues.
        """
        ranks, languages = self._run.place.ranks, self._languages
        scores: dict[str, dict[str, Any]] = {}
        for first in range(0, len(languages), ranks.world):
            mine = languages[first + ranks.rank : first + ranks.rank + 1]
            for rows, failure in gather_json(ranks, self._scores(step, mine)):
                if failure is not None:
                    self._run.place.progress.warn(f"step {step:,}: tasks not evaluated: {failure}")
                for language, task, figures in rows:
                    scores.setdefault(language, {})[task] = figures
        return {"step": step, "tasks": dict(sorted(scores.items()))} if scores else None

    def _scores(self, step: int, languages: Sequence[str]) -> tuple[list[Any], str | None]:
        """Language, task and figures of rows, and why there are none."""
        run = self._run
        if not languages:
            return [], None
        try:
            rows = self._evaluation.evaluate_tasks(
                run.config,
                run.place.directory.path,
                step,
                languages,
                device=run.place.ranks.device,
                progress=run.place.progress,
            )
        except ModtokError as error:
            return [], str(error)
        names = ("metric", "value", "low", "high", "chance", "n", "shots")
        return [
            (row["language"], row["task"], {name: row[name] for name in names if name in row})
            for row in rows  # a row may be a mean of tasks
        ], None
