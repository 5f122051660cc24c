"""What the public functions accept: paths as strings, languages as strings, no progress."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress, Silent
from modtok_cli.text.languages import language_list

FilePath = str | os.PathLike[str]
Languages = str | Iterable[str]


class ModtokWarning(UserWarning):
    """A result that is usable but probably not what was intended."""


class PythonWarnings(Silent):
    """A progress that draws nothing and raises each warning as a `ModtokWarning`."""

    def warn(self, text: str) -> None:
        """Issue a Python warning."""
        warnings.warn(text, ModtokWarning, stacklevel=2)


def progress_or_default(progress: Progress | None) -> Progress:
    """`progress`, or one that issues Python warnings."""
    return PythonWarnings() if progress is None else progress


def optional_path(value: FilePath | None) -> Path | None:
    """`value` as a `Path`; None stays."""
    return None if value is None else Path(value)


def optional_languages(value: Languages | None) -> list[str] | None:
    """`value` as a list of language codes; None stays."""
    return None if value is None else language_list(value)


def text_paths(texts: FilePath | Sequence[FilePath]) -> list[Path | str]:
    """One text or several as paths.

    Raises:
        ModtokError: an empty list.
    """
    found = [texts] if isinstance(texts, str | os.PathLike) else list(texts)
    if not found:
        raise ModtokError("expected at least one text, got none")
    return [Path(text) for text in found]
