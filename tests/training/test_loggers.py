"""Metrics in TensorBoard and Weights & Biases; skipped where the packages are not installed."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import pytest

from helpers.metrics import read_metrics
from modtok_cli.training.loop import pretrain
from modtok_cli.training.settings import RunSettings


def train_in_two_parts(settings: RunSettings) -> list[dict[str, Any]]:
    """A run of six steps that loses its last checkpoint and resumes from step 4."""
    pretrain(settings)
    shutil.rmtree(settings.runs / "it" / "checkpoints" / "step-00000006")
    pretrain(RunSettings(runs=settings.runs), resume=True)
    return read_metrics(settings.runs / "it")


def test_tensorboard_has_the_metrics(settings: RunSettings) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    lines = train_in_two_parts(replace(settings, log=("tensorboard",)))
    events = EventAccumulator(str(settings.runs / "it" / "tensorboard"))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("loss")]
    expected = [(line["step"], line["loss"]) for line in lines if "loss" in line]
    assert found == [(step, pytest.approx(loss)) for step, loss in expected]
    assert "held_out/fi/bits_per_byte" in events.Tags()["scalars"]


def test_wandb_works_offline(settings: RunSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    lines = train_in_two_parts(replace(settings, log=("wandb",)))
    name = (settings.runs / "it" / "wandb" / "id").read_text().strip()
    files = list((settings.runs / "it" / "wandb").glob(f"offline-run-*/run-{name}.wandb"))
    assert len(files) == 2
    written = [file.read_bytes() for file in files]
    for line in lines:
        value = line["loss"] if "loss" in line else line["held_out"]["fi"]["bits_per_byte"]
        assert any(repr(value).encode() in content for content in written)
