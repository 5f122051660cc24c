"""The active vocabulary for models of transformers in any trainer."""

from modtok_cli.nn.active_head import ActiveHead

__all__ = ["ActiveHead"]
