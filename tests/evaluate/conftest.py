"""A run of four languages, a few steps old; one of English that knows its text by heart."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.sample import SAMPLE
from helpers.small_run import small_run
from helpers.toy_preset import toy_preset
from modtok_cli.architectures.families.llama import llama
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.training.recipe import PRESETS
from modtok_cli.training.settings import RunSettings

BY_HEART = toy_preset(llama(1, 128, 32, 256), 64, 8, 8, 140, 10, 5e-3)


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")


@pytest.fixture(scope="session")
def few_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Greek, English, Finnish, French; a context of 192."""
    return small_run(tmp_path_factory)


@pytest.fixture(scope="session")
def by_heart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    from modtok_cli.training.loop import pretrain

    PRESETS["toy-by-heart"] = BY_HEART
    root = tmp_path_factory.mktemp("by-heart")
    (root / "data").mkdir()
    shutil.copy(SAMPLE / "data" / "en.jsonl", root / "data")
    bpe_seq(("en",), data=root / "data", output=root / "tokenizer", k=800)
    pretrain(
        RunSettings(
            model="toy-by-heart",
            sampling="none",
            data=root / "data",
            tokenizer=root / "tokenizer",
            runs=root / "runs",
            workers=0,
            eval_bytes=600,
            eval_every=BY_HEART.options["steps"],
            save_every=BY_HEART.options["steps"],
            name="it",
        )
    )
    yield root / "runs" / "it"
    del PRESETS["toy-by-heart"]
