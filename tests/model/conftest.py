"""A small run, trained a few steps for real, and what is sliced from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers.small_run import run_settings, small_workspace
from modtok_cli.model.generate.sliced_model import SlicedModel


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """data/, tokenizer/ (four languages, 600 tokens each) and runs/it, eight steps old."""
    from modtok_cli.training.loop import pretrain

    root = small_workspace(tmp_path_factory.mktemp("inference"))
    pretrain(run_settings(root, "it"))
    return root


@pytest.fixture(scope="session")
def run(workspace: Path) -> Path:
    return workspace / "runs" / "it"


@pytest.fixture(scope="session")
def tied_run(workspace: Path) -> Path:
    from modtok_cli.training.loop import pretrain

    pretrain(run_settings(workspace, "tied", tied=True))
    return workspace / "runs" / "tied"


@pytest.fixture(scope="session")
def french_english(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from modtok_cli.model.slice.slice import slice as slice_model

    path = tmp_path_factory.mktemp("slices") / "fr-en"
    slice_model(run, ["fr", "en"], output=path)
    return path


@pytest.fixture(scope="session")
def model(run: Path) -> SlicedModel:
    from modtok_cli.model.load import load

    return load(run, ["fr", "en"])
