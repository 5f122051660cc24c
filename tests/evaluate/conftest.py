"""A run of four languages, a few steps old."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.small_run import run_settings, small_workspace


@pytest.fixture(scope="session")
def few_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Greek, English, Finnish, French; the context holds some shots of the text, and not all."""
    from modtok_cli.training.loop import pretrain

    root = small_workspace(tmp_path_factory.mktemp("writing"))
    pretrain(run_settings(root, "it", seq_length=192, steps=12, eval_every=12, save_every=12))
    return root / "runs" / "it"
