"""Runs as processes: `--gpus`, several launchers (torchrun twice, tasks of srun), signals.

A signal finishes the step and saves a checkpoint.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.metrics import read_metrics
from helpers.python_processes import Python, write_command
from modtok_cli.training.distributed.launch import free_port
from modtok_cli.training.stopping import StopSignals

OPTIONS = (
    "--set architecture.layers=1 --set architecture.hidden_size=32 --set architecture.ffn=64 "
    "--set architecture.heads=4 --set architecture.kv_heads=2 --set architecture.head_width=8 "
    "--seq-length 32 --batch-size 2 --micro-batch 1 --sampling sub:1 --set schedule.lr_steps=9 "
    "--warmup 2 --set evaluation.eval_bytes=512 --save-every 5000 --eval-every 5000"
)
PRETRAIN = ("pretrain", "--name", "it")
MODEL = OPTIONS.split()
LONG = [*MODEL, "--steps", "5000"]
RANKS = 2


class Launched:
    """Processes that start the ranks of a run, or are its ranks."""

    def __init__(self, workspace: Path) -> None:
        self.workspace, self.port = workspace, str(free_port())
        self.started: list[Any] = []

    def start(self, *words: str, **variables: str) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MODTOK_DEVICE": "cpu", **variables}
        streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        options = {"cwd": self.workspace, "env": environment, "start_new_session": True, **streams}
        self.started.append(Python(words, **options))

    def modtok(self, *words: str, **variables: str) -> None:
        self.start("-m", "modtok_cli", *PRETRAIN, *words, **variables)

    def torchrun(self, *words: str) -> None:
        """Two launchers with a rank each; a rank leaves its process number in a file."""
        write_command(self.workspace / "python", f"-m modtok_cli {' '.join(PRETRAIN)}")
        rank = self.workspace / "rank"
        rank.write_text('#!/bin/sh\necho $$ > "process-$RANK"\nexec ./python "$@"\n')
        rank.chmod(0o755)
        for node in ("0", "1"):
            group = ["--nnodes", "2", "--node-rank", node, "--nproc-per-node", "1"]
            place = ["--master-addr", "127.0.0.1", "--master-port", self.port]
            self.start(
                "-m", "torch.distributed.run", *group, *place, "--no-python", str(rank), *words
            )

    def srun(self, *words: str) -> None:
        """Each rank a process of its own."""
        step = {"SLURM_STEP_NUM_TASKS": str(RANKS), "SLURM_STEP_NODELIST": "localhost,other[1-3]"}
        for rank in map(str, range(RANKS)):
            place = {"SLURM_PROCID": rank, "SLURM_LOCALID": rank, "MASTER_PORT": self.port}
            self.modtok(*words, **step, **place)

    def ended(self) -> tuple[list[int], list[str]]:
        """Exit statuses, and what each wrote to standard error."""
        said = [process.communicate(timeout=600)[1] for process in self.started]
        return [process.returncode for process in self.started], said

    def wait_for_steps(self, count: int) -> None:
        metrics = self.workspace / "runs" / "it" / "metrics.jsonl"
        while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= count):
            assert all(process.poll() is None for process in self.started), self.ended()
            time.sleep(0.02)

    def losses(self) -> list[float]:
        lines = read_metrics(self.workspace / "runs" / "it")
        return [line["loss"] for line in lines if "loss" in line]

    def saved(self, name: str, said: str) -> None:
        """The run was stopped by a signal: it says so, and its last step is saved."""
        step = len(self.losses())
        assert (
            f"modtok: stopped by {name} after step {step}; "
            "resume with modtok pretrain --resume --name it"
        ) in said.splitlines()
        checkpoints = (self.workspace / "runs" / "it" / "checkpoints").iterdir()
        assert [path.name for path in checkpoints] == [f"step-{step:08d}"]


@pytest.fixture
def launch(tokenizer: Path, data: Path, tmp_path: Path) -> Iterator[Callable[[], Launched]]:
    shutil.copytree(tokenizer, tmp_path / "tokenizer")
    made: list[Launched] = []

    def make() -> Launched:
        made.append(Launched(tmp_path))
        return made[-1]

    yield make
    for each in made:
        for process in each.started:
            process.kill()


def test_a_preempted_run_saves_and_resumes(launch: Callable[[], Launched], tmp_path: Path) -> None:
    """Tasks of srun, resumed by two launchers, train as ranks of one."""
    tasks = launch()
    tasks.srun(*LONG, "--workers", "0")
    tasks.wait_for_steps(2)
    # Stopped, so that no task has ended before it receives the signal.
    for number in (signal.SIGSTOP, signal.SIGUSR1, signal.SIGCONT):
        for process in tasks.started:
            process.send_signal(number)
    statuses, said = tasks.ended()
    assert statuses == [128 + signal.SIGUSR1] * RANKS
    tasks.saved("SIGUSR1", "".join(said))
    assert "".join(said).count("stopped by") == 1
    step = len(tasks.losses())
    again = launch()
    again.torchrun("--resume", "--steps", str(step + 2))
    statuses, said = again.ended()
    assert statuses == [0] * RANKS, said
    found = again.losses()
    shutil.rmtree(tmp_path / "runs" / "it")
    unbroken = launch()
    unbroken.modtok(*MODEL, "--workers", "0", "--steps", str(step + 2), "--gpus", str(RANKS))
    assert unbroken.ended()[0] == [0]
    assert unbroken.losses() == found


@pytest.mark.parametrize(
    ("number", "status", "words"),
    [
        (signal.SIGINT, 130, []),  # with processes that make batches, which a terminal signals too
        (signal.SIGTERM, 143, ["--gpus", "2", "--workers", "0"]),
    ],
)
def test_a_signal_saves_a_checkpoint(
    launch: Callable[[], Launched], number: signal.Signals, status: int, words: list[str]
) -> None:
    run = launch()
    run.modtok(*LONG, *words)
    run.wait_for_steps(5)
    os.killpg(run.started[0].pid, number)
    statuses, (said,) = run.ended()
    assert statuses == [status], said
    assert "Traceback" not in said
    run.saved(number.name, said.strip().splitlines()[-1])


HANGS_UP = """
import os, runpy, signal, time
from modtok_cli.training import loop

def train_step(run, model, feed, step):
    for _ in range(3 * (step == 4)):
        os.killpg(0, signal.SIGHUP)
        time.sleep(0.01)
    return whole(run, model, feed, step)

whole, loop.train_step = loop.train_step, train_step
runpy.run_module("modtok_cli", run_name="__main__", alter_sys=True)
"""


def test_a_closed_terminal_saves_too(launch: Callable[[], Launched]) -> None:
    """It sends SIGHUP more than once in a step, and to the processes that make batches."""
    run = launch()
    run.start("-c", HANGS_UP, *PRETRAIN, *LONG, "--workers", "1")
    statuses, (said,) = run.ended()
    assert statuses == [129]
    run.saved("SIGHUP", said)


def test_a_second_hang_up_is_ignored() -> None:
    stop = StopSignals(None)  # type: ignore[arg-type]
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGHUP):
        stop._note(number, None)
    assert stop.received == signal.SIGINT
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            stop._note(signal.SIGINT, None)
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_second_signal_stops_at_once(launch: Callable[[], Launched], tmp_path: Path) -> None:
    run = launch()
    run.modtok(*LONG)
    run.wait_for_steps(3)
    # Stopped, so that both arrive before the step ends.
    for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        run.started[0].send_signal(number)
    assert run.ended()[0][0] in (130, -signal.SIGTERM)
    assert not (tmp_path / "runs" / "it" / "checkpoints").exists()
