"""Text for the tests: the sample in the repository, and the shared corpus beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

import modtok_cli

ROOT = Path(__file__).parents[2]
SAMPLE = Path(modtok_cli.__file__).parent / "samples"
SHARED = Path(__file__).parents[3] / "shared"

needs_shared = pytest.mark.skipif(
    not (SHARED / "data").is_dir(), reason="the shared test corpus is not beside the checkout"
)
