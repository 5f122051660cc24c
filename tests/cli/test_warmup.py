"""`modtok warmup` goes through every group of kernels."""

from __future__ import annotations

from modtok_cli.cli.warmup import STEPS, warmup


def test_warmup_runs_every_group() -> None:
    seconds = warmup()
    assert list(seconds) == list(STEPS)
    assert all(value > 0 for value in seconds.values())
