"""Multiple choice on the checkpoints of a run that trains: `modtok pretrain --eval-tasks`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Progress

if TYPE_CHECKING:
    import torch

    from modtok_cli.evaluate.mcq import McqSettings
    from modtok_cli.training.config import Config

_FLAG = "--eval-tasks"


def check_tasks(config: Config, languages: Sequence[str]) -> list[str]:
    """Check that there are questions; returns what is missing, in sentences."""
    if find_spec("lm_eval") is None:
        raise UsageError(
            "lm_eval is not installed", where=_FLAG, remedy="pip install 'modtok[eval]'"
        )
    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):  # all data is local
        os.environ.setdefault(name, "1")
    from modtok_cli.evaluate.mcq import check_local

    return check_local(config.eval_tasks_data, languages, _settings(config))


def evaluate_tasks(
    config: Config,
    run: Path,
    step: int,
    languages: Sequence[str],
    *,
    device: torch.device,
    progress: Progress,
) -> list[Mapping[str, Any]]:
    """The rows of `modtok eval mcq` on the checkpoint of a step; [] without questions."""
    from modtok_cli.evaluate.mcq import answer, languages_with_questions
    from modtok_cli.evaluate.models import open_models

    data, settings = config.eval_tasks_data, _settings(config)
    chosen = languages_with_questions(data, languages, settings)
    if not chosen:
        return []
    models = open_models(run, step=step, device=device, progress=progress)
    evaluation = answer(models, chosen, data, None, settings)
    return [result.as_row() for result in evaluation.results]


def _settings(config: Config) -> McqSettings:
    from modtok_cli.evaluate.mcq import McqSettings

    tasks = None if config.eval_tasks == ("all",) else config.eval_tasks
    return McqSettings(tasks=tasks, limit=config.eval_tasks_limit)
