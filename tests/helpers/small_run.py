"""A small workspace of four languages, and the settings of runs of a few real steps in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helpers.sample import sample_text
from helpers.toy_preset import toy_preset
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.model.architecture.families.llama import llama
from modtok_cli.training.recipe import PRESETS
from modtok_cli.training.settings import RunSettings

LANGUAGES = ("el", "en", "fi", "fr")
# Not the defaults: more layers, heads and groups than one, so that a wrong order shows.
NAME, TOY = "toy-small", toy_preset(llama(2, 64, 8, 96), 48, 8, 1e-2)


def small_workspace(root: Path) -> Path:
    """data/ and tokenizer/, 600 tokens for each language."""
    bpe_seq(
        LANGUAGES, data=sample_text(root / "data", *LANGUAGES), output=root / "tokenizer", k=600
    )
    return root


def run_settings(root: Path, name: str, **changes: Any) -> RunSettings:
    """Eight steps, with checkpoints of steps 4 and 8; what is written depends on what is read."""
    PRESETS[NAME] = TOY
    settings: dict[str, Any] = {
        "model": NAME, "sampling": "sub:1", "workers": 0, "eval_bytes": 600, "steps": 8,
        "eval_every": 8, "save_every": 4, "name": name, "init_std": 0.3,
    }  # fmt: skip
    places = {"data": root / "data", "tokenizer": root / "tokenizer", "runs": root / "runs"}
    return RunSettings(**settings | places | changes)
