"""`--profile`: the trace is complete, and the run is the same with and without it."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
from torch.profiler import profile

from helpers.metrics import numbers
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
    pretrain(replace(settings, steps=4, profile=2))
    assert steps_of(run) == {"ProfilerStep#2", "ProfilerStep#3"}
    assert not [path for path in run.iterdir() if "partial" in path.name]
    config = json.loads((run / "config.json").read_bytes())
    assert "profile" not in config["config"]
    assert "--profile" not in config["command"]
    pretrain(RunSettings(runs=settings.runs, steps=7, profile=9), resume=True)
    assert steps_of(run) == {"ProfilerStep#2", "ProfilerStep#3"}  # the run ended; 3 is empty
    pretrain(replace(settings, steps=4, name="plain"))
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
    pretrain(replace(settings, steps=4, profile=1), progress=notes)
    assert any("No space left on device" in note for note in notes.warnings)
    assert not (settings.runs / "it" / PROFILE).exists()
