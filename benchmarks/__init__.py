"""Measurements of speed, quality and robustness: `python -m benchmarks` lists them."""
