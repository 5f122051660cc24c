"""Write the metrics for TensorBoard and Weights & Biases, beside metrics.jsonl."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from modtok_cli.base.errors import UsageError
from modtok_cli.training.config import Config

_PROJECT = "modtok"
_MODULES = {"tensorboard": "torch.utils.tensorboard", "wandb": "wandb"}


class Logger(Protocol):
    """A program that receives the metrics."""

    def add(self, line: Mapping[str, Any]) -> None:
        """Write one line of metrics."""

    def close(self) -> None:
        """Flush and close."""


def require_loggers(names: Sequence[str]) -> None:
    """Check that the packages of these loggers are installed.

    Raises:
        UsageError: one is not.
    """
    for name in names:
        _module_of(name)


def _module_of(name: str) -> Any:
    try:
        return import_module(_MODULES[name])
    except ImportError as error:
        raise UsageError(
            f"{name} is not installed", where="--log", remedy="pip install 'modtok[log]'"
        ) from error


class Loggers:
    """The loggers of `--log`, on rank 0."""

    def __init__(self, config: Config, run: Path, step: int) -> None:
        """Continue the logs of `run` after `step`."""
        self._loggers: list[Logger] = []
        for name in config.log or ():
            if name == "wandb":
                self._loggers.append(Wandb(config, run))
            else:
                self._loggers.append(TensorBoard(run / name, step))

    def add(self, line: Mapping[str, Any]) -> None:
        """Write one line of metrics."""
        for each in self._loggers:
            each.add(line)

    def close(self) -> None:
        """Flush and close."""
        for each in self._loggers:
            each.close()


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
        self._run: Any = wandb.init(
            project=os.environ.get("WANDB_PROJECT", _PROJECT),
            name=run.name,
            id=_id(directory / "id"),
            resume="allow",
            dir=str(run),
            mode=os.environ.get("WANDB_MODE", "offline"),
            config=config.as_json(),
            settings=wandb.Settings(silent=True, console="off", disable_git=True),
        )

    def add(self, line: Mapping[str, Any]) -> None:
        """Write one line; lines of a step, such as its evaluation, are merged."""
        self._run.log(dict(flatten(line)), step=line["step"])

    def close(self) -> None:
        """Flush and close."""
        self._run.finish()


def _id(file: Path) -> str:
    """The id of the run, created on first use."""
    if not file.exists():
        file.write_text(secrets.token_hex(4) + "\n")
    return file.read_text().strip()


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
