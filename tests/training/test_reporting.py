"""Status lines, throughput and loss spikes."""

from __future__ import annotations

import random
import shutil
import statistics
from dataclasses import replace
from typing import Any

import pytest
import torch

from helpers.metrics import numbers, read_metrics
from helpers.said import Said
from helpers.sample import ROOT
from modtok_cli.training import loop, metrics
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.loop import pretrain
from modtok_cli.training.metrics import LanguageSums, SpikeDetector, Status
from modtok_cli.training.model.phases import PHASES, Pace, Phases, Spending
from modtok_cli.training.plan import plan
from modtok_cli.training.settings import RunSettings
from modtok_cli.training.step import Finish


def line_of(step: int, losses: dict[str, float]) -> dict[str, Any]:
    figures = {name: {"nats_per_token": x} for name, x in losses.items()}
    return {"step": step, "stage": 1, "languages": figures}


def test_spikes_as_computed_from_all_losses() -> None:
    """Finnish is of two kinds of text, which are no spikes; others alternate or are constant."""
    rng = random.Random(3)
    detector = SpikeDetector()
    history: dict[str, list[tuple[int, float]]] = {name: [] for name in ("el", "en", "fi", "fr")}
    seen = 0
    for step in range(1, 900):
        drawn = rng.sample([*history], rng.choice((1, 2)))
        wild = rng.random() < 0.02
        usual = {
            "el": 2 + 0.1 * (step % 2), "en": rng.gauss(3 + 2 / step, 0.1),
            "fi": rng.gauss(2.3 if rng.random() < 0.25 else 1.1, 0.1), "fr": 4.0,
        }  # fmt: skip
        losses = {name: usual[name] * (4 if wild else 1) for name in drawn}
        expected = {}
        for name, loss in losses.items():
            past = [x for then, x in history[name] if then >= step - metrics.WINDOW]
            if len(past) >= 20:
                median = statistics.median(past)
                spread = statistics.median(abs(x - median) for x in past)
                high = statistics.quantiles(past, n=20, method="inclusive")[-1]
                limit = median + 6 * max(1.4826 * spread, (high - median) / 1.645, median / 100)
                if loss > limit:
                    figures = {"loss": loss, "median": median, "limit": limit}
                    expected[name] = pytest.approx(figures)
            history[name].append((step, loss))
        found = detector.add(line_of(step, losses))
        assert found == expected
        seen += len(found)
        assert wild or not found
    assert seen > 10
    assert detector.add(line_of(900, {"en": 60.0}))
    assert detector.add({**line_of(901, {"en": 90.0}), "stage": 2}) == {}


def test_spikes_are_reported_and_resume(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = loop.train_step

    def spiking(run: Any, model: Any, feed: Any, step: int) -> Finish:
        finish = whole(run, model, feed, step)

        def finished(before: float) -> tuple[dict[str, Any], float]:
            line, ended = finish(before)
            if step in (5, 6):
                for figures in line["languages"].values():
                    figures["nats_per_token"] *= 3 if step == 5 else 100
            return line, ended

        return finished

    monkeypatch.setattr(loop, "train_step", spiking)
    monkeypatch.setattr(metrics, "_LEAST", 2)
    notes = Said()
    pretrain(settings.changed(langs=("fi",), sampling="none"), progress=notes)
    lines = [line for line in read_metrics(settings.runs / "it") if "loss" in line]
    assert [line["step"] for line in lines if "spikes" in line] == [5, 6]
    (language, spike), *_ = lines[4]["spikes"].items()
    assert spike["loss"] == lines[4]["languages"][language]["nats_per_token"] > spike["limit"]
    told = [note for note in notes.warnings if f"loss spike in {language}" in note]
    assert told[0].startswith(
        f"step 5: loss spike in {language}: {spike['loss']:.3f} nats per token"
    )
    assert len(told) == 1  # one warning for a spike of several steps
    expected = numbers(settings.runs / "it")
    shutil.rmtree(settings.runs / "it" / "checkpoints" / "step-00000006")
    pretrain(RunSettings(runs=settings.runs), resume=True)
    assert numbers(settings.runs / "it") == expected


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
        if step == 1:
            assert not status.with_progress.endswith("left")
    assert str(status) == "loss 3.214, lr 2.90e-03, 2,000 tokens/s"
    status.add({**line, "step": 1000}, 500)
    assert not status.with_progress.endswith("left")
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


def test_a_terminal_has_no_status_lines(settings: RunSettings) -> None:
    drawn = Said()
    drawn.draws = True
    pretrain(settings.changed(log_every=2), progress=drawn)
    assert not any(" tokens/s" in note for note in drawn.notes)


def test_utilization_needs_the_devices_peak(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretrain(settings.changed(steps=1))
    time = read_metrics(settings.runs / "it")[0]["time"]
    assert time["mfu"] is None
    assert time["model_flops_per_second"] > 0
    known = settings.changed(steps=2, device_flops=1e9)
    pretrain(known.changed(name="known"))
    time = read_metrics(settings.runs / "known")[0]["time"]
    assert time["mfu"] == pytest.approx(time["model_flops_per_second"] / 1e9, rel=0.01)
    slow = plan(known.changed(device_flops=1e6), ranks=1)
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
