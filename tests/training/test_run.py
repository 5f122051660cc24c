"""Whole runs: metrics, resume after kill -9, and everything that can be wrong."""

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
import torch

from helpers.metrics import numbers, read_metrics
from helpers.python_processes import Python
from helpers.said import Said
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Silent
from modtok_cli.training import loop, step
from modtok_cli.training.checkpoint import saving
from modtok_cli.training.loop import pretrain
from modtok_cli.training.model import phases
from modtok_cli.training.model.model import Model
from modtok_cli.training.plan import plan
from modtok_cli.training.prepare import prepare_text
from modtok_cli.training.settings import RunSettings

from .conftest import LANGUAGES, SAMPLE, TOY, interrupt

ON_CPU = pytest.mark.skipif("MODTOK_GPU_CHECK" in os.environ, reason="of runs on a CPU")


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
    assert config["config"]["sampling"] == "sub:1"
    assert f"--data {settings.data} " in config["command"]
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


def test_dense_and_tied_run(settings: RunSettings) -> None:
    pretrain(replace(settings, update="dense", tied=True, steps=2))
    with pytest.raises(UsageError, match="use --resume to continue"):
        pretrain(settings)
    pretrain(replace(settings, steps=1), force=True)
    assert len(read_metrics(settings.runs / "it")) == 2


def test_workers_make_the_same_batches(settings: RunSettings) -> None:
    pretrain(settings)
    pretrain(replace(settings, workers=2, name="workers"))
    assert numbers(settings.runs / "it") == numbers(settings.runs / "workers")


def test_resume_needs_no_settings_and_refuses_others(settings: RunSettings) -> None:
    torch.set_num_threads(2)  # sums depend on it: a resumed run takes as many
    pretrain(settings)
    torch.set_num_threads(1)
    expected = numbers(settings.runs / "it")
    shutil.rmtree(settings.runs / "it" / "checkpoints" / "step-00000006")
    plain = RunSettings(
        data=settings.data, tokenizer=settings.tokenizer, runs=settings.runs, workers=0
    )
    with pytest.raises(UsageError, match="other settings: --p, --seed"):
        pretrain(replace(plain, p=0.9, seed=3), resume=True)
    pretrain(plain, resume=True)
    assert torch.get_num_threads() == (1 if "MODTOK_GPU_CHECK" in os.environ else 2)
    torch.set_num_threads(1)
    assert numbers(settings.runs / "it") == expected
    again = Silent()
    pretrain(plain, resume=True, progress=again)
    torch.set_num_threads(1)
    assert "is finished" in again.warnings[0]
    assert numbers(settings.runs / "it") == expected


def test_nothing_to_resume(settings: RunSettings) -> None:
    with pytest.raises(UsageError, match="no such run"):
        pretrain(settings, resume=True)


@pytest.mark.parametrize("harm", ["flip", "state", "missing"])
def test_a_damaged_checkpoint_gives_way_to_the_one_before(settings: RunSettings, harm: str) -> None:
    pretrain(settings)
    expected = numbers(settings.runs / "it")
    last = settings.runs / "it" / "checkpoints" / "step-00000006"
    shard = last / "shard-0-of-1.safetensors"
    if harm == "flip":
        data = bytearray(shard.read_bytes())
        data[-50] ^= 1
        shard.write_bytes(data)
    elif harm == "state":
        (last / "state.json").write_bytes(b"{")
    else:
        shard.unlink()
    said = Silent()
    pretrain(settings, resume=True, progress=said)
    assert "damaged or missing; using step-00000004 instead" in said.warnings[0]
    assert numbers(settings.runs / "it") == expected


def test_all_checkpoints_damaged(settings: RunSettings) -> None:
    pretrain(settings)
    for state in (settings.runs / "it" / "checkpoints").glob("*/state.json"):
        state.unlink()
    with pytest.raises(ModtokError, match=r"no sound checkpoint: .*step-00000006.*step-00000004"):
        pretrain(settings, resume=True)


def test_a_language_the_tokenizer_lacks(settings: RunSettings) -> None:
    shutil.copy(SAMPLE / "sw.jsonl", settings.data)
    missing = (
        rf"tokenizer: .* no language 'sw', which {settings.data} has; .*--langs el,en,fi,fr, or"
    )
    for command in (pretrain, plan, prepare_text):
        keywords = {"resume": False, "progress": SILENT} if command is prepare_text else {}
        with pytest.raises(UsageError, match=missing):
            command(settings, **keywords)
    assert not settings.runs.exists()  # nothing was unpacked
    pretrain(replace(settings, langs=("en", "fi"), steps=1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sampling": "sub:4"}, "use sub:3 at most"),
        ({"langs": ("en", "sv")}, "no text of language 'sv'"),
        ({"mix": "sv=0.5"}, "there is no text of language"),
        ({"micro_batch": 3}, "not divisible"),
        ({"model": "9b"}, "--model: preset '9b' does not exist"),
        ({"name": "../out"}, "cannot be the name of a run"),
        ({"name": "latest"}, "cannot be the name of a run"),
        ({"p": 1.5}, "^p: expected at least 0 and at most 1, got 1.5"),
        ({"seq_length": 4}, "^seq_length: expected at least 8"),
        ({"tp": 2}, "--tp 2 needs a multiple of 2 processes; this run has 1"),
        pytest.param(
            {"distributed_optimizer": True},
            "distributed_optimizer: requires GPUs",
            marks=ON_CPU,
        ),
        ({"tokenizer": Path("nowhere")}, "not a modular tokenizer"),
    ],
)
def test_wrong_settings(settings: RunSettings, change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pretrain(replace(settings, **change))
    assert not (settings.runs / "it").exists()


def test_an_empty_language_directory(settings: RunSettings) -> None:
    (settings.data / "fi.jsonl").unlink()
    (settings.data / "fi").mkdir()
    with pytest.raises(ModtokError, match="language 'fi' has no text"):
        pretrain(settings)


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

    def poisoned(model: Model, microbatches: Any, *others: Any) -> Any:
        if poisoned.calls == 4:  # type: ignore[attr-defined]
            model.copies.before_change()  # the checkpoint of step 4 may not have been copied
            model.input.weight[microbatches[1].inputs[0, 0]] = float("nan")
        poisoned.calls += 1  # type: ignore[attr-defined]
        return whole(model, microbatches, *others)

    poisoned.calls = 0  # type: ignore[attr-defined]
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


def test_disk_full_while_saving(settings: RunSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = saving.write_safetensors

    def full(path: Path, tensors: Any) -> dict[str, int]:
        if "step-00000004" in str(path):
            raise OSError(28, "No space left on device")
        return whole(path, tensors)

    monkeypatch.setattr(saving, "write_safetensors", full)
    with pytest.raises(ModtokError, match=r"No space left.*the previous checkpoint is complete"):
        pretrain(settings)
    kept = [path.name for path in (settings.runs / "it" / "checkpoints").iterdir()]
    assert kept == ["step-00000002"]
    monkeypatch.setattr(saving, "write_safetensors", whole)
    pretrain(settings, resume=True)
    assert read_metrics(settings.runs / "it")[-1]["step"] == 6


KILLED = """
import json
import os
import sys
from pathlib import Path

import torch

from modtok_cli.training import loop, recipe
from modtok_cli.training.settings import RunSettings
recipe.PRESETS["toy"] = json.loads(os.environ["TOY"])
torch.use_deterministic_algorithms("MODTOK_GPU_CHECK" in os.environ, warn_only=True)
data, tokenizer, runs = map(Path, sys.argv[1:4])
settings = RunSettings(model="toy", sampling="sub:1", warmup=2, eval_every=9, save_every=7,
    **json.loads(os.environ["STAGES"]), eval_bytes=700, name="it", data=data, tokenizer=tokenizer,
    runs=runs, offload="offload" in sys.argv)
loop.pretrain(settings)
"""


@pytest.mark.parametrize("offload", [False, True])
def test_killed_at_any_step_and_resumed(
    settings: RunSettings, tmp_path: Path, before_step: Any, offload: bool
) -> None:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    metrics = settings.runs / "it" / "metrics.jsonl"
    words = [script, settings.data, settings.tokenizer, settings.runs, *["offload"][: int(offload)]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOY": json.dumps(TOY)}
    stages: dict[str, Any] = {"steps": 12, "lr_steps": 4000, "stages": [
        {"steps": 5, "sampling": "full", "batch_size": 2},
        {"steps": 3983, "mix": {"fi": 0.5}, "seq_length": 48, "rope_theta": 5e5},
    ]}  # fmt: skip
    environment["STAGES"] = json.dumps(stages)
    if "MODTOK_GPU_CHECK" in os.environ:  # a fork of a process that has used CUDA cannot use it
        command = [sys.executable, *map(str, words)]
        running: Any = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)
    else:
        running = Python(words, env=environment, stderr=subprocess.PIPE)
    while running.poll() is None:
        if metrics.exists() and metrics.read_bytes().count(b"\n") > 20:
            break
        time.sleep(0.02)
    workers = _children_of(running.pid)
    assert workers
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
    full = replace(settings, warmup=2, eval_every=9, save_every=7, name="unbroken")
    full = replace(full, offload=offload, **stages)
    for change, resume in ((full, False), (replace(full, name="it"), True)):
        with pytest.raises(KeyboardInterrupt):
            pretrain(change, resume=resume)
    unbroken, resumed = numbers(settings.runs / "unbroken"), numbers(settings.runs / "it")
    assert resumed == unbroken
    assert unbroken[-1]["step"] >= stop - 1  # the last may not have been read
    deadline = time.monotonic() + 120
    while any(map(_runs, workers)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(_runs, workers))  # workers of a killed run end by themselves
    assert b"leaked" not in running.stderr.read()  # and leave nothing that a tracker has to remove


def _children_of(pid: int) -> list[str]:
    return [
        entry.name
        for entry in Path("/proc").glob("[0-9]*")
        if _status(entry.name)[1:2] == [str(pid)]
    ]


def _runs(pid: str) -> bool:
    return _status(pid)[:1] not in ([], ["Z"])


def _status(pid: str) -> list[str]:
    """State and parent of a process, [] if there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return []
