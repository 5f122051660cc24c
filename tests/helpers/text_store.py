"""The store of one language."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modtok_cli.training.data.text_store import TextStore, text_stores


def text_store(language: str, files: Sequence[Path], cache: Path, **options: Any) -> TextStore:
    """As `text_stores`."""
    return text_stores({language: files}, cache, **options)[language]
