"""SIGINT, SIGTERM and SIGHUP: a run finishes its step and saves a checkpoint."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.metrics import read_metrics
from helpers.python_processes import Python

from .conftest import LANGUAGES, SAMPLE

RUN = (
    "--sampling sub:1 --steps 5000 --set schedule.lr_steps=5000 --warmup 30 "
    "--set architecture.layers=1 --set architecture.hidden_size=32 "
    "--set architecture.ffn=64 --set architecture.heads=4 --set architecture.kv_heads=2 "
    "--set architecture.head_width=8 --set evaluation.eval_bytes=512 "
    "--seq-length 32 --batch-size 4 --micro-batch 2"
)


@pytest.fixture
def workspace(tokenizer: Path, tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for language in LANGUAGES:
        shutil.copy(SAMPLE / f"{language}.jsonl", tmp_path / "data")
    shutil.copytree(tokenizer, tmp_path / "tokenizer")
    return tmp_path


def start(workspace: Path, *words: str) -> Python:
    command = ["-m", "modtok_cli", "pretrain", "--name", "it", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MODTOK_DEVICE": "cpu"}
    return Python(command, cwd=workspace, env=environment, stderr=subprocess.PIPE, text=True)


def wait_for_steps(workspace: Path, running: Python | subprocess.Popen[str], count: int) -> None:
    metrics = workspace / "runs" / "it" / "metrics.jsonl"
    while running.poll() is None:
        if metrics.exists() and metrics.read_bytes().count(b"\n") >= count:
            return
        time.sleep(0.02)
    pytest.fail(f"ended: {running.communicate()[1]}")


@pytest.mark.parametrize(
    ("number", "ranks", "status"), [(signal.SIGINT, 1, 130), (signal.SIGTERM, 2, 143)]
)
def test_a_signal_saves_a_checkpoint(
    workspace: Path, number: signal.Signals, ranks: int, status: int
) -> None:
    words = [*RUN.split(), *["--gpus", str(ranks)], "--save-every", "5000", "--eval-every", "5000"]
    if number == signal.SIGTERM:  # the other run has processes that make batches
        words += ["--workers", "0"]
    running = start(workspace, *words)
    wait_for_steps(workspace, running, 5)
    running.send_signal(number)
    err = running.communicate(timeout=120)[1]
    assert running.returncode == status, err
    last = err.strip().splitlines()[-1]
    step = read_metrics(workspace / "runs" / "it")[-1]["step"]
    assert last == (
        f"modtok: stopped by {number.name} after step {step}; "
        "resume with modtok pretrain --resume --name it"
    )
    saved = [path.name for path in (workspace / "runs" / "it" / "checkpoints").iterdir()]
    assert saved == [f"step-{step:08d}"]


def test_a_closed_terminal_saves_too(workspace: Path) -> None:
    """It sends SIGHUP more than once, and to the processes that make batches."""
    command = [sys.executable, "-m", "modtok_cli", "pretrain", "--name", "it", *RUN.split()]
    with subprocess.Popen(
        [*command, "--workers", "1"],
        cwd=workspace,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MODTOK_DEVICE": "cpu"},
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # tests under nohup
        text=True,
    ) as running:
        wait_for_steps(workspace, running, 3)
        os.killpg(running.pid, signal.SIGHUP)
        os.killpg(running.pid, signal.SIGHUP)
        _, err = running.communicate(timeout=120)
    step = read_metrics(workspace / "runs" / "it")[-1]["step"]
    assert f"modtok: stopped by SIGHUP after step {step}; resume with" in err
    assert running.returncode == 129
    (saved,) = (workspace / "runs" / "it" / "checkpoints").iterdir()
    assert saved.name == f"step-{step:08d}"


def test_a_second_signal_stops_at_once(workspace: Path) -> None:
    running = start(workspace, *RUN.split())
    wait_for_steps(workspace, running, 3)
    running.send_signal(signal.SIGSTOP)  # so that both arrive before the step ends
    running.send_signal(signal.SIGINT)
    running.send_signal(signal.SIGTERM)
    running.send_signal(signal.SIGCONT)
    running.communicate(timeout=120)
    assert running.returncode in (130, -signal.SIGTERM)
    assert not (workspace / "runs" / "it" / "checkpoints").exists()
