"""A checkpoint that is complete when the call returns."""

from pathlib import Path

from modtok_cli.training.checkpoint import Checkpointer
from modtok_cli.training.model.model import Model


def save(directory: Path, model: Model, step: int) -> None:
    """Save a checkpoint; every rank calls it."""
    saver = Checkpointer(directory, model.ranks)
    saver.save(model, step, {})
    saver.wait()
