"""Whole runs: metrics, resume after kill -9 and with changes, and everything that can be wrong."""

from __future__ import annotations

import itertools
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import orjson
import pytest
import torch

from helpers.metrics import numbers, read_metrics
from helpers.processes import alive_in_session
from helpers.python_processes import Python
from helpers.said import Said
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Silent
from modtok_cli.base.remote import path_of
from modtok_cli.construct.bpe_seq import bpe_seq
from modtok_cli.training import loop, step
from modtok_cli.training.checkpoint import saving
from modtok_cli.training.loop import pretrain
from modtok_cli.training.model import phases
from modtok_cli.training.model.model import Model
from modtok_cli.training.plan import plan
from modtok_cli.training.prepare import prepare_text
from modtok_cli.training.settings import SECTIONS, RunSettings

from .conftest import LANGUAGES, SAMPLE, TOY, interrupt


def test_a_run_and_what_it_leaves(settings: RunSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: float(next(ticks)))
    monkeypatch.setattr(step, "time", clock)
    monkeypatch.setattr(phases, "time", clock)
    said = Said()
    report = pretrain(settings, progress=said)
    run = settings.runs / "it"
    assert report.output == run
    assert [row["language"] for row in report.rows()] == list(LANGUAGES)
    config = orjson.loads((run / "config.json").read_bytes())
    assert config["config"]["data"]["sampling"] == "sub:1"
    assert shlex.join(["--data", str(settings.data.data)]) in config["command"]
    assert config["command"].endswith(" --name it")
    assert config["tokenizer"]["languages"] == list(LANGUAGES)
    assert set(config["versions"]) >= {"modtok", "torch", "megatron-core"}
    assert config["mixture"]["en"] == pytest.approx(0.7)
    assert (settings.runs / "latest").resolve() == run.resolve()
    lines = read_metrics(run)
    steps = [line for line in lines if "loss" in line]
    assert [line["step"] for line in steps] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in lines if "held_out" in line] == [3, 6]
    assert steps[-1]["tokens"] == 6 * 4 * 32
    assert steps[0]["lr"] == pytest.approx(3e-3)
    assert steps[-1]["lr"] == pytest.approx(3e-4)
    assert steps[0]["time"]["tokens_per_second"] > 0
    assert steps[0]["time"]["peak_bytes"] > 0
    if "MODTOK_GPU_CHECK" not in os.environ:  # a step ends before it is read, also at a save
        counted = {"wait": 2, "gather": 3, "forward": 2, "backward": 2, "exchange": 1, "update": 1}
        assert [line["time"]["phases"] for line in steps] == 6 * [counted]
        assert {line["time"]["step_seconds"] for line in steps} == {13.0}  # and the ends of both
        assert said.notes[-1].startswith(
            "a step takes 11 s: gather of rows 27%, wait for text 18%, forward and loss 18%, "
            "backward 18%, exchange of gradients 9%, update 9%; peak of memory "
        )
    kept = sorted(path.name for path in (run / "checkpoints").iterdir())
    assert kept == ["step-00000004", "step-00000006"]


def test_resume_needs_no_settings_and_refuses_others(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(torch, "get_num_threads", lambda: 7)
        pretrain(settings)
    expected = numbers(settings.runs / "it")
    shutil.rmtree(settings.runs / "it" / "checkpoints" / "step-00000006")
    plain = RunSettings(runs=settings.runs)
    with pytest.raises(UsageError, match="other settings: --p, --seed"):
        pretrain(plain.changed(p=0.9, seed=3), resume=True)
    taken: list[int] = []  # sums depend on it: a resumed run takes as many
    monkeypatch.setattr(torch, "set_num_threads", taken.append)
    pretrain(plain, resume=True)
    assert numbers(settings.runs / "it") == expected
    again = Silent()
    pretrain(plain, resume=True, progress=again)
    assert "is finished" in again.warnings[0]
    assert numbers(settings.runs / "it") == expected
    assert {*taken} == (set() if "MODTOK_GPU_CHECK" in os.environ else {7})


def test_nothing_to_resume_and_something_to_overwrite(settings: RunSettings) -> None:
    with pytest.raises(UsageError, match="no such run"):
        pretrain(settings, resume=True)
    pretrain(settings.changed(steps=2))
    with pytest.raises(UsageError, match="use --resume to continue"):
        pretrain(settings)
    pretrain(settings.changed(steps=1), force=True)
    assert len(read_metrics(settings.runs / "it")) == 2


def test_a_damaged_checkpoint_gives_way_to_the_one_before(settings: RunSettings) -> None:
    pretrain(settings)
    expected = numbers(settings.runs / "it")
    last = settings.runs / "it" / "checkpoints" / "step-00000006"
    shard, state = last / "shard-0-of-1.safetensors", last / "state.json"
    data = shard.read_bytes()
    for harm in (
        lambda: shard.write_bytes(data[:-50] + bytes([data[-50] ^ 1]) + data[-49:]),
        lambda: state.write_bytes(b"{"),
        shard.unlink,
    ):
        harm()
        said = Silent()
        pretrain(settings, resume=True, progress=said)
        assert "damaged or missing; using step-00000004 instead" in said.warnings[0]
        assert numbers(settings.runs / "it") == expected
    for state in last.parent.glob("*/state.json"):
        state.unlink()
    with pytest.raises(ModtokError, match=r"no sound checkpoint: .*step-00000006.*step-00000004"):
        pretrain(settings, resume=True)


def test_a_language_the_tokenizer_lacks(settings: RunSettings) -> None:
    shutil.copy(SAMPLE / "sw.jsonl", settings.data.data)
    data = settings.data.data
    missing = rf"tokenizer: .* no language 'sw', which {data} has; .*--langs el,en,fi,fr, or"
    for command in (pretrain, plan, prepare_text):
        keywords = {"resume": False, "progress": SILENT} if command is prepare_text else {}
        with pytest.raises(UsageError, match=missing):
            command(settings, **keywords)
    assert not settings.runs.exists()  # nothing was unpacked
    pretrain(settings.changed(langs=("en", "fi"), steps=1))


@pytest.mark.parametrize("stop", [0, 1])
def test_disk_full_at_the_end(
    settings: RunSettings, monkeypatch: pytest.MonkeyPatch, before_step: Any, stop: int
) -> None:
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saving, "write_safetensors", full)
    before_step(stop, lambda: signal.raise_signal(signal.SIGUSR1))
    with pytest.raises(ModtokError, match=r"No space left.*the previous checkpoint is complete"):
        pretrain(settings.changed(steps=6 if stop else 1))


def test_loss_that_is_not_finite(settings: RunSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = step.mean_gradients

    # A step is read when the next one has started, and before what needs its end.
    order: list[tuple[str, int]] = []
    start = loop.train_step

    def started(*words: Any) -> Any:
        order.append(("start", words[3]))
        finish = start(*words)
        return lambda before: (order.append(("finish", words[3])), finish(before))[1]

    monkeypatch.setattr(loop, "train_step", started)
    calls = itertools.count()

    def poisoned(model: Model, microbatches: Any, *others: Any) -> Any:
        if next(calls) == 4:
            model.copies.before_change()  # the checkpoint of step 4 may not have been copied
            model.input.weight[microbatches[1].inputs[0, 0]] = float("nan")
        return whole(model, microbatches, *others)

    monkeypatch.setattr(step, "mean_gradients", poisoned)
    with pytest.raises(ModtokError) as caught:
        pretrain(settings)
    text = str(caught.value)
    assert "the loss of step 5 is not finite" in text
    assert "sequence 2, language" in text
    assert "from document" in text
    assert "checkpoint of step 4 is kept" in text
    steps = [("start", 1), ("start", 2), ("finish", 1), ("finish", 2), ("start", 3), ("finish", 3)]
    assert order == [*steps, ("start", 4), ("finish", 4), ("start", 5), ("start", 6), ("finish", 5)]
    monkeypatch.setattr(step, "mean_gradients", whole)
    pretrain(settings, resume=True)
    assert read_metrics(settings.runs / "it")[-1]["step"] == 6


@pytest.mark.parametrize("offload", [False, True])
def test_killed_at_any_step_and_resumed(
    settings: RunSettings, tmp_path: Path, before_step: Any, offload: bool
) -> None:
    metrics = settings.runs / "it" / "metrics.jsonl"
    options: dict[str, Any] = {
        **TOY, "model": "tiny", "sampling": "sub:1", "steps": 12, "lr_steps": 4000,
        "stages": [
            {"steps": 5, "sampling": "full", "batch_size": 2},
            {"steps": 3983, "mix": {"fi": 0.5}, "seq_length": 48, "rope_theta": 5e5},
        ],
        "eval_every": 9, "save_every": 7, "eval_bytes": 700, "offload": offload, "name": "it",
        **{name: str(settings[name]) for name in ("data", "tokenizer", "runs")},
    }  # fmt: skip
    (tmp_path / "settings.json").write_bytes(orjson.dumps([options]))
    words = ["-m", "helpers.rank_of_runs", str(tmp_path / "settings.json")]
    start: dict[str, Any] = {
        "cwd": Path(__file__).parents[1], "env": {**os.environ, "OMP_NUM_THREADS": "1"},
        "stderr": subprocess.PIPE, "start_new_session": True,
    }  # fmt: skip
    if "MODTOK_GPU_CHECK" in os.environ:  # a fork of a process that has used CUDA cannot use it
        running: Any = subprocess.Popen([sys.executable, *words], **start)
    else:
        running = Python(words, **start)
    while running.poll() is None:
        if metrics.exists() and metrics.read_bytes().count(b"\n") > 20:
            break
        time.sleep(0.02)
    assert len(alive_in_session(running.pid)) > 1  # processes that make batches too
    running.send_signal(signal.SIGKILL)
    running.wait()
    killed = read_metrics(settings.runs / "it")
    step = killed[-1]["step"]
    assert 15 <= step < 4000
    with open(metrics, "ab") as file:  # as if the kill had hit in the middle of a line
        file.write(b'{"step":99999,"lo')
    # What an unbroken run has, up to a few steps beyond the kill. (The schedule is of 4000
    # steps in both; stopping is by an exception, as any interruption would.)
    stop = step + 5

    before_step(stop + 1, interrupt)
    full = RunSettings(**{**options, "name": "unbroken", "workers": 0})
    for change, resume in ((full, False), (RunSettings(runs=settings.runs, name="it"), True)):
        with pytest.raises(KeyboardInterrupt):
            pretrain(change, resume=resume)
    unbroken, resumed = numbers(settings.runs / "unbroken"), numbers(settings.runs / "it")
    assert resumed == unbroken
    assert unbroken[-1]["step"] >= stop - 1  # the last may not have been read
    deadline = time.monotonic() + 600
    while alive_in_session(running.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert alive_in_session(running.pid) == []  # workers of a killed run end by themselves
    assert b"leaked" not in running.stderr.read()  # and leave nothing that a tracker has to remove


def rates(run: Path) -> list[float]:
    return [line["lr"] for line in read_metrics(run) if "lr" in line]


def test_more_steps_keep_the_schedule_and_changed_options_are_said(settings: RunSettings) -> None:
    pretrain(settings)
    run, said = settings.runs / "it", Said()
    before = rates(run)
    more = RunSettings(runs=settings.runs, steps=9, recompute=1, keep=3, save_every=1)
    pretrain(more, resume=True, progress=said)
    assert rates(run) == [*before, *[pytest.approx(3e-4)] * 3]
    assert any("stays at 0.0003 after step 6" in note for note in said.notes)
    recompute = "--set parallelism.recompute is now 1, was None"
    assert {recompute, "--save-every is now 1, was 2"} <= set(said.notes)
    found = orjson.loads((run / "config.json").read_bytes())["config"]
    expected = {"steps": 9, "lr_steps": 6, "recompute": 1, "save_every": 1, "workers": 0}
    options = {name: value for section in SECTIONS for name, value in found[section].items()}
    assert expected.items() <= options.items()
    with pytest.raises(UsageError, match=r"with other settings: --set schedule.lr_steps; leave"):
        pretrain(RunSettings(runs=settings.runs, lr_steps=9), resume=True)


def test_a_tokenizer_that_contains_the_runs_is_accepted(
    settings: RunSettings, tmp_path: Path
) -> None:
    tokenizer = tmp_path / "tokenizer"
    bpe_seq(["el", "en"], data=SAMPLE, output=tokenizer, k=400, references=False)
    both = settings.changed(tokenizer=tokenizer, langs=("el", "en"))
    pretrain(both)
    pretrain(both.changed(steps=8, name="unbroken"))
    bpe_seq(append=["fi"], data=SAMPLE, output=tokenizer)
    said = Said()
    pretrain(RunSettings(runs=settings.runs, name="it", steps=8), resume=True)
    more = RunSettings(runs=settings.runs, name="it", steps=9, tokenizer=tokenizer)
    pretrain(more, resume=True, progress=said)
    assert any("contains the run's tokenizer (all" in note for note in said.notes)
    other = tmp_path / "other"
    bpe_seq(LANGUAGES, data=SAMPLE, output=other, k=450, references=False)
    with pytest.raises(ModtokError, match=r"which .*other does not contain"):
        pretrain(more.changed(tokenizer=other), resume=True)


@pytest.mark.parametrize("change", [{"batch_size": 10**9}, {"seq_length": 10**9}])
def test_steps_beyond_memory_are_refused_at_once(
    settings: RunSettings, change: dict[str, int]
) -> None:
    large = settings.changed(**change)  # type: ignore[arg-type]
    for work in (pretrain, lambda given: plan(given, ranks=1)):
        with pytest.raises(ModtokError, match=r"batches of .* GiB are free; use a smaller"):
            work(large)  # type: ignore[operator]
    assert not (settings.runs / "it").exists()


def test_validation_text_in_object_storage(settings: RunSettings) -> None:
    store = fsspec.filesystem("memory")
    for file in settings.data.data.iterdir():
        store.pipe(f"/text/data/{file.name}", file.read_bytes())
        store.pipe(f"/valid/data/{file.name}", file.read_bytes())
    far = settings.changed(valid="far=memory://valid/data")
    pretrain(far)
    expected = numbers(settings.runs / "it")
    assert any("far" in line.get("valid", {}) for line in expected)
    shutil.rmtree(settings.runs / "it" / "checkpoints" / "step-00000006")
    pretrain(RunSettings(runs=settings.runs), resume=True)
    assert numbers(settings.runs / "it") == expected
    # All files of a store have the inode 0.
    pretrain(far.changed(data=path_of("memory://text/data"), name="both"))
    assert numbers(settings.runs / "both") == expected
    with pytest.raises(UsageError, match="valid/data is the text of the run"):
        pretrain(far.changed(data=path_of("memory://valid/data"), name="same"))
