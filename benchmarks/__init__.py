"""Measurements of speed, quality and robustness: `python -m benchmarks` lists them."""

import sys
from pathlib import Path

sys.path.append(
    str(Path(__file__).parents[1] / "tests")
)  # what tests and benchmarks share: helpers
