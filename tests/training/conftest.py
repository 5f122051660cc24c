"""A small tokenizer of real text, made once a session, and models that fit a test."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers import sample
from helpers.text_store import text_store
from helpers.toy_preset import toy_preset
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.model.architecture.families.llama import llama
from modtok_cli.text.workspace import language_files
from modtok_cli.training import loop
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.data.text_store import TextStore
from modtok_cli.training.recipe import PRESETS
from modtok_cli.training.settings import RunSettings

warnings.filterwarnings("ignore", message=".*Transformer Engine and Apex.*")

# Tests run side by side: threads of several models on few cores wait for each other.
torch.set_num_threads(1)
if "MODTOK_GPU_CHECK" in os.environ:
    # Flash attention's backward pass and others add in any order otherwise.
    torch.use_deterministic_algorithms(True, warn_only=True)

SAMPLE = sample.SAMPLE / "data"
LANGUAGES = ("el", "en", "fi", "fr")
TOY = toy_preset(llama(1, 32, 8, 88), 32, 6, 3e-3)


@pytest.fixture(scope="session")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A modular directory of four languages, 600 tokens each."""
    path = tmp_path_factory.mktemp("pretrain") / "tokenizer"
    bpe_seq(LANGUAGES, data=SAMPLE, output=path, k=600)
    return path


@pytest.fixture(scope="session")
def subtokenizers(tokenizer: Path) -> SubtokenizerCache:
    return SubtokenizerCache.load(tokenizer)


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TextStore]:
    cache = tmp_path_factory.mktemp("texts")
    files = language_files(SAMPLE, LANGUAGES)
    return {name: text_store(name, files[name], cache) for name in LANGUAGES}


@pytest.fixture(autouse=True)
def _toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRESETS, "toy", TOY)
    torch.manual_seed(0)  # else numbers depend on the tests before


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Text of the four languages."""
    (tmp_path / "data").mkdir()
    for language in LANGUAGES:
        shutil.copy(SAMPLE / f"{language}.jsonl", tmp_path / "data")
    return tmp_path / "data"


@pytest.fixture
def settings(tokenizer: Path, data: Path, tmp_path: Path) -> RunSettings:
    """A run of six steps, in this process."""
    return RunSettings(
        model="toy",
        sampling="sub:1",
        data=data,
        tokenizer=tokenizer,
        runs=tmp_path / "runs",
        workers=0,
        eval_every=3,
        eval_bytes=700,
        save_every=2,
        name="it",
    )


@pytest.fixture
def before_step(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], Any]], None]:
    """Set what is done when a run comes to a step, if it has that step."""
    whole = loop.train_step

    def set_work(step: int, work: Callable[[], Any]) -> None:
        def stepped(run: Any, model: Any, feed: Any, now: int) -> Any:
            if now == step:
                work()
            return whole(run, model, feed, now)

        monkeypatch.setattr(loop, "train_step", stepped)

    return set_work


def interrupt() -> None:
    raise KeyboardInterrupt
