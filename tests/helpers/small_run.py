"""A small run, trained a few steps for real, for what writes: translation and summaries."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from helpers.sample import SAMPLE
from helpers.toy_preset import toy_preset
from modtok_cli.architectures.families.llama import llama
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.training.recipe import PRESETS
from modtok_cli.training.settings import RunSettings

LANGUAGES = ("el", "en", "fi", "fr")
# The context holds some shots of the sample text, and not all.
NAME, TOY = "toy-writing", toy_preset(llama(2, 64, 8, 96), 192, 12, 1e-2)


def small_run(factory: pytest.TempPathFactory) -> Path:
    """runs/it of a workspace of four languages, 600 tokens each; made once by a process."""
    from modtok_cli.training.loop import pretrain

    PRESETS[NAME] = TOY
    root = factory.getbasetemp() / "writing"
    if (root / "done").exists():
        return root / "runs" / "it"
    (root / "data").mkdir(parents=True)
    for language in LANGUAGES:
        shutil.copy(SAMPLE / "data" / f"{language}.jsonl", root / "data")
    bpe_seq(LANGUAGES, data=root / "data", output=root / "tokenizer", k=600)
    pretrain(
        RunSettings(
            model=NAME,
            sampling="sub:1",
            data=root / "data",
            tokenizer=root / "tokenizer",
            runs=root / "runs",
            workers=0,
            eval_bytes=600,
            steps=TOY["steps"],
            eval_every=TOY["steps"],
            save_every=TOY["steps"],
            name="it",
        )
    )
    (root / "done").touch()
    return root / "runs" / "it"
