"""What a run writes beside its metrics: a profile, TensorBoard, Weights & Biases."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from torch.profiler import profile

from helpers.metrics import numbers, read_metrics
from helpers.said import Said
from modtok_cli.training.loop import pretrain
from modtok_cli.training.profiling import PROFILE
from modtok_cli.training.settings import RunSettings


def steps_of(run: Path) -> set[str]:
    """The steps in the trace, by the names of the profiler; forward, backward and update too."""
    with gzip.open(run / PROFILE) as file:
        names = {event["name"] for event in json.load(file)["traceEvents"]}
    assert names >= {"aten::embedding", "aten::scaled_dot_product_attention"}
    assert any("Backward" in name for name in names)
    return {name for name in names if name.startswith("ProfilerStep")}


def test_a_profiled_run_is_the_same_run(settings: RunSettings) -> None:
    run = settings.runs / "it"
    pretrain(settings.changed(steps=4, profile=2))
    assert steps_of(run) == {"ProfilerStep#2", "ProfilerStep#3"}
    assert not [path for path in run.iterdir() if "partial" in path.name]
    config = json.loads((run / "config.json").read_bytes())
    assert "profile" not in config["config"]
    assert "--profile" not in config["command"]
    pretrain(RunSettings(runs=settings.runs, steps=7, profile=9), resume=True)
    assert steps_of(run) == {"ProfilerStep#2", "ProfilerStep#3"}  # the run ended; 3 is empty
    pretrain(settings.changed(steps=4, name="plain"))
    pretrain(RunSettings(runs=settings.runs, name="plain", steps=7), resume=True)
    assert not (settings.runs / "plain" / PROFILE).exists()
    assert numbers(run) == numbers(settings.runs / "plain")


def test_a_trace_that_cannot_be_written_is_a_warning(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: profile, path: str) -> None:
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(profile, "export_chrome_trace", full)
    notes = Said()
    pretrain(settings.changed(steps=4, profile=1), progress=notes)
    assert any("No space left on device" in note for note in notes.warnings)
    assert not (settings.runs / "it" / PROFILE).exists()


def train_in_two_parts(settings: RunSettings) -> list[dict[str, Any]]:
    """A run of six steps that loses its last checkpoint and resumes from step 4."""
    pretrain(settings)
    shutil.rmtree(settings.runs / "it" / "checkpoints" / "step-00000006")
    pretrain(RunSettings(runs=settings.runs), resume=True)
    return read_metrics(settings.runs / "it")


def test_tensorboard_has_the_metrics(settings: RunSettings) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    lines = train_in_two_parts(settings.changed(log=("tensorboard",)))
    events = EventAccumulator(str(settings.runs / "it" / "tensorboard"))
    events.Reload()
    found = [(event.step, event.value) for event in events.Scalars("loss")]
    expected = [(line["step"], line["loss"]) for line in lines if "loss" in line]
    assert found == [(step, pytest.approx(loss)) for step, loss in expected]
    assert "held_out/fi/bits_per_byte" in events.Tags()["scalars"]


def test_wandb_works_offline(settings: RunSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    for name in ("WANDB__SERVICE_WAIT", "WANDB_INIT_TIMEOUT"):
        monkeypatch.setenv(name, "600")  # its process may start late
    lines = train_in_two_parts(settings.changed(log=("wandb",)))
    name = (settings.runs / "it" / "wandb" / "id").read_text().strip()
    files = list((settings.runs / "it" / "wandb").glob(f"offline-run-*/run-{name}.wandb"))
    assert len(files) == 2
    written = [file.read_bytes() for file in files]
    for line in lines:
        value = line["loss"] if "loss" in line else line["held_out"]["fi"]["bits_per_byte"]
        assert any(repr(value).encode() in content for content in written)
