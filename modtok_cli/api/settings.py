"""Public names of settings classes."""

from modtok_cli.pretrain.settings import Settings as TrainingSettings

__all__ = ["TrainingSettings"]
