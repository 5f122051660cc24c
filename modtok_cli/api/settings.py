"""Public names of settings classes."""

from modtok_cli.pretrain.config import Settings as TrainingSettings

__all__ = ["TrainingSettings"]
