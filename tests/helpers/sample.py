"""Text for the tests: the sample in the repository, and the shared corpus beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from numba import config

SAMPLE = Path(__file__).parents[2] / "examples" / "sample"
SHARED = Path(__file__).parents[3] / "shared"

needs_shared = pytest.mark.skipif(
    not (SHARED / "data").is_dir() or bool(config.DISABLE_JIT),
    reason="the shared test corpus is not beside the checkout, or far too long for plain Python",
)
