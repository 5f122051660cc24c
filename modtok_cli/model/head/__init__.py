"""The active vocabulary for models of transformers in any trainer."""

from modtok_cli.model.head.active_head import ActiveHead

__all__ = ["ActiveHead"]
