"""Measurements of speed, quality and robustness: `python -m benchmarks` lists them."""

import sys
from pathlib import Path

# What tests and benchmarks share: helpers.
sys.path.append(str(Path(__file__).parents[1] / "tests"))
