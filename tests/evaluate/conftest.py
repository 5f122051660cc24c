"""A run of four languages, a few steps old."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.small_run import small_run


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")


@pytest.fixture(scope="session")
def few_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Greek, English, Finnish, French; a context of 192."""
    return small_run(tmp_path_factory)
