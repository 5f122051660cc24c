"""Public names of settings classes."""

from modtok_cli.training.settings import Settings as TrainingSettings

__all__ = ["TrainingSettings"]
