"""Reports of a run, on rank 0: metrics.jsonl, status lines, TensorBoard, Weights & Biases."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import Task
from modtok_cli.training.config import Config
from modtok_cli.training.data.sampling import Mixture
from modtok_cli.training.distributed.ranks import gather_json
from modtok_cli.training.metrics import HELD_OUT, WINDOW, Drawn, SpikeDetector, Status
from modtok_cli.training.model.phases import Spending
from modtok_cli.training.run import Run
from modtok_cli.training.stored_config import config_as_json

_PROJECT = "modtok"
_MODULES = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb"}


class Reporter:
    """Reports of a run; does nothing on other ranks than the first."""

    def __init__(self, run: Run, step: int) -> None:
        """Continue the metrics and logs of the run after `step`."""
        self._directory, self._config, self._progress = run.directory, run.config, run.progress
        self._ranks, self._first = run.ranks, run.ranks.first
        self._spiking: set[str] = set()
        if not self._first:
            return
        self._directory.open_metrics(step)
        self._spikes = SpikeDetector()
        self._drawn = Drawn()
        for line in self._directory.steps():
            self._drawn.add(line)
            if line["step"] > step - WINDOW:
                self._spikes.add(line)
        self._status, self._spending = Status(self._config.last_step), Spending()
        path = self._directory.path
        self._loggers = [
            Wandb(run.config, path) if name == "wandb" else TensorBoard(path / name, step)
            for name in run.config.evaluation.log or ()
        ]

    def step(self, line: Mapping[str, Any], task: Task) -> None:
        """Report a training step."""
        if not self._first:
            return
        self._drawn.add(line)
        spikes = self._spikes.add(line)
        self._add({**line, "spikes": spikes} if spikes else line)
        for language in sorted(spikes.keys() - self._spiking):
            spike = spikes[language]
            self._progress.warn(
                f"step {line['step']:,}: loss spike in {language}: {spike['loss']:.3f} nats per "
                f"token, median {spike['median']:.3f} of the last {WINDOW} steps"
            )
        self._spiking = self._spiking - line["languages"].keys() | spikes.keys()
        self._status.add(line, time.monotonic())
        self._spending.add(line["time"])
        task.describe(str(self._status))
        task.advance(1)
        if not self._progress.draws and line["step"] % self._config.evaluation.log_every == 0:
            self._progress.note(self._status.with_progress)

    def shares(self, mixture: Mixture) -> dict[str, dict[str, float]]:
        """Shares of the texts in the stage until now, planned and seen; {} on other ranks."""
        return self._drawn.shares(mixture) if self._first else {}

    def evaluation(self, line: Mapping[str, Any]) -> None:
        """Report an evaluation, in a sentence for each text."""
        if not self._first:
            return
        self._add(line)
        for text, figures in texts_of(line).items():
            bits = {name: each["bits_per_byte"] for name, each in figures.items()}
            parts = [f"{name} {'left out' if each is None else f'{each:.3f}'}"
                     for name, each in bits.items()]  # fmt: skip
            self._progress.note(f"step {line['step']:,}: {text} bits per byte {', '.join(parts)}")

    def tasks(self, line: Mapping[str, Any] | None) -> None:
        """Report an evaluation of tasks; None is one that failed."""
        if not self._first or line is None:
            return
        self._add(line)
        for language, tasks in line["tasks"].items():
            parts = [f"{task} {figures['value']:.1f}" for task, figures in tasks.items()]
            self._progress.note(f"step {line['step']:,}: {language} accuracy {', '.join(parts)}")

    def has_tasks(self, step: int) -> bool:
        """Whether the metrics have an evaluation of tasks at the last step. Collective."""
        evaluated = self._first and self._directory.has_line(step, "tasks")
        return bool(gather_json(self._ranks, evaluated)[0])

    def _add(self, line: Mapping[str, Any]) -> None:
        self._directory.add(line)
        for logger in self._loggers:
            logger.add(line)

    def end(self) -> None:
        """Say what the steps of this process were spent on, if there were any."""
        if self._first and self._spending:
            self._progress.note(str(self._spending))

    def close(self) -> None:
        """Close the loggers; the metrics belong to the run's directory."""
        if self._first:
            for logger in self._loggers:
                logger.close()


def texts_of(line: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Figures by language of every text of an evaluation."""
    return {HELD_OUT: line["held_out"], **line.get("valid", {})}


def require_loggers(names: Sequence[str]) -> None:
    """Check that the packages of these loggers are installed."""
    for name in names:
        _module_of(name)


def _module_of(name: str) -> Any:
    try:
        return import_module(_MODULES[name])
    except ImportError as error:
        raise UsageError(
            f"{name} is not installed", where="--log", remedy="pip install 'modtok[log]'"
        ) from error


class TensorBoard:
    """Writes the numbers of metrics lines, under names such as `languages/fi/tokens`."""

    def __init__(self, directory: Path, step: int = 0) -> None:
        """Continue after `step`; hides values of later steps from an interrupted run."""
        writer = _module_of("tensorboard").SummaryWriter
        self._writer: Any = writer(str(directory), purge_step=step + 1)

    def add(self, line: Mapping[str, Any]) -> None:
        """Write one line."""
        for name, value in flatten(line):
            self._writer.add_scalar(name, value, line["step"])

    def close(self) -> None:
        """Flush and close."""
        self._writer.close()


class Wandb:
    """Logs to Weights & Biases, in `wandb/` of the run's directory.

    Offline unless WANDB_MODE is set: neither network nor account are needed, and
    `wandb sync` uploads later. All processes of a run have one id, so that a resumed run
    continues its curves.
    """

    def __init__(self, config: Config, run: Path) -> None:
        wandb = _module_of("wandb")
        directory = run / "wandb"
        directory.mkdir(exist_ok=True)
        identity = directory / "id"
        if not identity.exists():
            identity.write_text(secrets.token_hex(4) + "\n")
        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", _PROJECT),
            name=run.name,
            id=identity.read_text().strip(),
            resume="allow",
            dir=str(run),
            mode=os.environ.get("WANDB_MODE", "offline"),
            config=config_as_json(config),
            settings=wandb.Settings(silent=True, console="off", disable_git=True),
        )

    def add(self, line: Mapping[str, Any]) -> None:
        """Write one line; lines of a step, such as its evaluation, are merged."""
        self._run.log(dict(flatten(line)), step=line["step"])

    def close(self) -> None:
        """Flush and close."""
        self._run.finish()


def flatten(line: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    """Numbers by path, without the step.

    >>> list(flatten({"step": 1, "loss": 2.0, "time": {"mfu": None, "step_seconds": 3.0}}))
    [('loss', 2.0), ('time/step_seconds', 3.0)]
    """
    for key, value in line.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}/")
        elif isinstance(value, int | float) and key != "step":
            yield f"{prefix}{key}", value
