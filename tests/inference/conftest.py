"""A small run, trained a few steps for real, and what is sliced from it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import sample
from helpers.toy_preset import toy_preset
from modtok_cli.architectures.families.llama import llama
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.inference.run.model import SlicedModel
from modtok_cli.training.recipe import PRESETS
from modtok_cli.training.settings import RunSettings

SAMPLE = sample.SAMPLE / "data"
LANGUAGES = ("el", "en", "fi", "fr")
# Not the defaults: more layers, heads and groups than one, so that a wrong order shows.
TOY = toy_preset(llama(2, 64, 8, 96), 48, 8, 1e-2)


@pytest.fixture(scope="session", autouse=True)
def _toy() -> Iterator[None]:
    PRESETS["toy-inference"] = TOY
    yield
    del PRESETS["toy-inference"]


@pytest.fixture(scope="session")
def workspace(tmp_path_factory: pytest.TempPathFactory, _toy: None) -> Path:
    """data/, tokenizer/ (four languages, 600 tokens each) and runs/it, eight steps old."""
    from modtok_cli.training.loop import pretrain

    root = tmp_path_factory.mktemp("inference")
    (root / "data").mkdir()
    for language in LANGUAGES:
        shutil.copy(SAMPLE / f"{language}.jsonl", root / "data")
    bpe_seq(LANGUAGES, data=root / "data", output=root / "tokenizer", k=600)
    pretrain(run_settings(root, "it"))
    return root


def run_settings(root: Path, name: str, *, tied: bool = False) -> RunSettings:
    return RunSettings(
        model="toy-inference",
        sampling="sub:1",
        data=root / "data",
        tokenizer=root / "tokenizer",
        runs=root / "runs",
        workers=0,
        eval_bytes=600,
        steps=8,
        eval_every=8,
        save_every=4,
        name=name,
        tied=tied,
    )


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
    from modtok_cli.inference.slice.slice import slice as slice_model

    path = tmp_path_factory.mktemp("slices") / "fr-en"
    slice_model(run, ["fr", "en"], output=path)
    return path


@pytest.fixture(scope="session")
def model(run: Path) -> SlicedModel:
    """Few steps old, a model hardly heeds its context; with larger weights this one does."""
    from modtok_cli.inference.load import load

    model = load(run, ["fr", "en"])
    for name, weights in model.backbone.named_parameters():
        weights.data.mul_(30.0 if name.endswith("proj.weight") else 1.0)
    return model
