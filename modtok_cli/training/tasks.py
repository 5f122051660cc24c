"""Evaluation of tasks during training, by whoever starts the run: training knows no tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Progress
from modtok_cli.training.config import Config
from modtok_cli.training.distributed.ranks import gather_json

if TYPE_CHECKING:
    from modtok_cli.training.prepare import Run

Row = Mapping[str, Any]


class TaskEvaluator(Protocol):
    """Evaluates checkpoints of a run on the tasks of its configuration, `eval_tasks…`."""

    def check(self, config: Config, languages: Sequence[str]) -> list[str]:
        """Check that there are questions; returns what is missing, in sentences.

        Raises:
            UsageError, ModtokError: an unknown task, or no questions at all.
        """

    def evaluate(
        self,
        config: Config,
        run: Path,
        step: int,
        languages: Sequence[str],
        *,
        device: torch.device,
        progress: Progress,
    ) -> list[Row]:
        """The rows of `modtok eval mcq` on the checkpoint of a step."""


class Tasks:
    """The tasks of a run, which may be none."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._evaluator: TaskEvaluator | None = None

    def check(self, evaluator: TaskEvaluator | None) -> None:
        """Check that there are questions; warns about languages without."""
        if not self._run.config.eval_tasks:
            return
        if evaluator is None:
            raise UsageError("needs an evaluator", where="--eval-tasks", remedy="modtok.pretrain")
        for note in evaluator.check(self._run.config, self._languages):
            self._run.progress.warn(f"--eval-tasks: {note}")
        self._evaluator = evaluator

    @property
    def _languages(self) -> list[str]:
        return list(self._run.config.eval_tasks_langs or self._run.mixture.languages)

    def due(self, step: int) -> bool:
        """Whether tasks are evaluated after `step`."""
        config = self._run.config
        every = step % config.eval_tasks_every == 0 or step == config.steps
        return self._evaluator is not None and every

    def evaluate(self, step: int) -> dict[str, Any] | None:
        """The line of metrics for the checkpoint of `step`, which is on disk. Collective.

        Ranks share the languages, one each at a time: a rank must not be away from the others
        for longer than that. A failure is a warning: training continues.
        """
        ranks, languages = self._run.ranks, self._languages
        scores: dict[str, dict[str, Any]] = {}
        for first in range(0, len(languages), ranks.world):
            mine = languages[first + ranks.rank : first + ranks.rank + 1]
            for rows, failure in gather_json(ranks, self._scores(step, mine)):
                if failure is not None:
                    self._run.progress.warn(f"step {step:,}: tasks not evaluated: {failure}")
                for language, task, figures in rows:
                    scores.setdefault(language, {})[task] = figures
        return {"step": step, "tasks": dict(sorted(scores.items()))} if scores else None

    def _scores(self, step: int, languages: Sequence[str]) -> tuple[list[Any], str | None]:
        """Language, task and figures of rows, and why there are none."""
        run = self._run
        assert self._evaluator is not None
        if not languages:
            return [], None
        try:
            rows = self._evaluator.evaluate(
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
