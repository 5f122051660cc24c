"""Text for the tests: the sample in the repository."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

import modtok_cli

ROOT = Path(__file__).parents[2]
SAMPLE = Path(modtok_cli.__file__).parent / "samples"


def sample_text(place: Path, *languages: str, folder: str = "data") -> Path:
    """`place`, with the text of these languages in it."""
    place.mkdir(parents=True, exist_ok=True)
    for language in languages:
        (path,) = (SAMPLE / folder).glob(f"{language}.*")
        shutil.copy(path, place)
    return place


def needs(*modules: str) -> pytest.MarkDecorator:
    """Skip a test where one of these is not installed."""
    absent = [name for name in modules if find_spec(name) is None]
    return pytest.mark.skipif(bool(absent), reason=f"needs {', '.join(absent)}")
