"""Status lines and throughput."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from helpers.metrics import read_metrics
from helpers.said import Said
from helpers.sample import ROOT
from modtok_cli.training import metrics
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.loop import pretrain
from modtok_cli.training.metrics import LanguageSums, Status
from modtok_cli.training.model.phases import PHASES, Pace, Phases, Spending
from modtok_cli.training.plan import plan
from modtok_cli.training.settings import RunSettings


def test_status_by_hand() -> None:
    status = Status(1000)
    for step in range(1, 5):
        time = {"step_seconds": 0.25, "tokens_per_second": 2000, "mfu": None if step == 4 else 0.5}
        line = {"step": step, "loss": 3.21449, "lr": 2.9e-3, "time": time}
        status.add(line, 10 + 0.5 * step)
        if step == 3:
            expected = "loss 3.214, lr 2.90e-03, 2,000 tokens/s, MFU 50.0%"
            assert str(status) == expected
            assert status.with_progress == f"step 3/1,000, {expected}, 0:08:18 left"
    assert str(status) == "loss 3.214, lr 2.90e-03, 2,000 tokens/s"
    prompts = {**line, "loss": LanguageSums([], torch.device("cpu")).figures([0.0, 0.0])[0]}
    status.add(prompts, 12.5)
    assert str(status).startswith("no token in the loss, lr ")  # "loss nan" looks like divergence


class Event:
    """An event of a GPU that passes its commands one after the other; nothing may wait for it."""

    passed = issued = 0

    def __init__(self, *, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        Event.issued += 1
        self.at = Event.issued

    def query(self) -> bool:
        return self.at <= Event.passed

    def elapsed_time(self, end: Event) -> float:
        assert end.query()
        return 1000.0 * (end.at**2 - self.at**2)


def test_phases_of_a_gpu_count_when_they_have_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "Event", Event)
    phases = Phases(torch.device("cuda"))
    steps = []
    for _ in range(2):
        for phase in ("gather", "forward", "update"):
            phases.begin(phase)
        steps.append(phases.end())
    Event.passed = 3  # the update runs
    none = dict.fromkeys(PHASES, 0.0)
    assert phases.read(steps[0]) == none | {"gather": 3.0, "forward": 5.0}
    Event.passed = 8
    assert phases.read(steps[1]) == none | {"gather": 11.0, "forward": 13.0, "update": 7.0 + 15.0}


def test_the_slowest_rank_is_told_to_all() -> None:
    two = [Pace(replace(start_ranks(), rank=rank, world=2)) for rank in range(2)]
    spent = dict.fromkeys(PHASES, 0.0) | {"exchange": 9.0}
    for pace, seconds in zip(two, (0.5, 0.75), strict=True):
        assert pace.add(spent | {"backward": seconds}).keys() == {"peak_bytes"}
    largest = [max(both) for both in zip(*(pace.numbers() for pace in two), strict=True)]
    for pace in two:
        pace.learn(largest)
        assert pace.add(spent)["slowest"] == {"rank": 1, "seconds": 0.25}
    said = Spending()
    phases = spent | {"backward": 1.0}
    said.add({"phases": spent | {"wait": 99.0}, "peak_bytes": 1 << 30})  # starts workers
    assert not said
    said.add({"phases": phases, **pace.add(spent), "peak_bytes": 1 << 29})
    assert str(said) == (
        "a step takes 10 s: exchange of gradients 90%, backward 10%; peak of memory 1.0 GiB; "
        "rank 1 is the slowest, by 2.5% of the time"
    )
    page = (ROOT / "docs" / "pretraining.md").read_text()
    assert all(f"`{name}`" in page for name in (*PHASES, "peak_bytes", "slowest"))


def test_status_lines_outside_a_terminal(settings: RunSettings) -> None:
    plain, drawn = Said(), Said()
    drawn.draws = True
    pretrain(replace(settings, log_every=2), progress=plain)
    pretrain(replace(settings, log_every=2, name="drawn"), progress=drawn)
    steps = [note.split(",")[0] for note in plain.notes if " tokens/s" in note]
    assert steps == ["step 2/6", "step 4/6", "step 6/6"]
    assert not any(" tokens/s" in note for note in drawn.notes)


def test_utilization_needs_the_devices_peak(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretrain(replace(settings, steps=1))
    time = read_metrics(settings.runs / "it")[0]["time"]
    assert time["mfu"] is None
    assert time["model_flops_per_second"] > 0
    known = replace(settings, steps=2, device_flops=1e9)
    pretrain(replace(known, name="known"))
    time = read_metrics(settings.runs / "known")[0]["time"]
    assert time["mfu"] == pytest.approx(time["model_flops_per_second"] / 1e9, rel=0.01)
    slow = plan(replace(known, device_flops=1e6), ranks=1)
    assert slow.seconds == pytest.approx(1000 * plan(known, ranks=1).seconds)
    gpu = torch.device("cuda")
    for name, peak in (
        ("NVIDIA H100 80GB HBM3", 989e12),
        ("NVIDIA H100 PCIe", 756e12),
        ("NVIDIA GeForce", None),
    ):
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device, name=name: name)
        assert metrics.peak_flops(gpu, torch.bfloat16) == peak
    assert metrics.peak_flops(gpu, torch.float32) is None
