"""Write the metrics for TensorBoard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import UsageError


def require_tensorboard() -> Any:
    """TensorBoard's writer class.

    Raises:
        UsageError: it is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UsageError(
            "TensorBoard is not installed",
            where="--tensorboard",
            remedy="pip install tensorboard, or read metrics.jsonl",
        ) from error
    return SummaryWriter


class TensorBoard:
    """Writes the numbers of metrics lines, under names such as `languages/fi/tokens`."""

    def __init__(self, directory: Path, step: int = 0) -> None:
        """Continue after `step`; hides values of later steps from an interrupted run."""
        self._writer: Any = require_tensorboard()(str(directory), purge_step=step + 1)

    def add(self, line: Mapping[str, Any]) -> None:
        """Write one line."""
        for name, value in flatten(line):
            self._writer.add_scalar(name, value, line["step"])

    def close(self) -> None:
        """Flush and close."""
        self._writer.close()


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
