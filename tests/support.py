"""What tests of several rooms use."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from numba import config

SAMPLE = Path(__file__).parents[1] / "examples" / "sample"
SHARED = Path(__file__).parents[2] / "shared"

needs_shared = pytest.mark.skipif(
    not (SHARED / "data").is_dir() or bool(config.DISABLE_JIT),
    reason="the shared test corpus is not beside the checkout, or far too long for plain Python",
)


def hear_ctrl_c() -> None:
    """For `preexec_fn`: a runner in the background of a shell ignores Ctrl-C, and so would we."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
