"""What tests of several rooms use."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[1] / "examples" / "sample"
SHARED = Path(__file__).parents[2] / "shared"

needs_shared = pytest.mark.skipif(
    not (SHARED / "data").is_dir(), reason="the shared test corpus is not beside the checkout"
)


def hear_ctrl_c() -> None:
    """For `preexec_fn`: a runner in the background of a shell ignores Ctrl-C, and so would we."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
