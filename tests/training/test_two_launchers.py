"""Runs that several launchers start, as on several machines: torchrun twice, tasks of srun."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.metrics import read_metrics
from helpers.python_processes import Python, write_command

from .conftest import LANGUAGES, SAMPLE

OPTIONS = (
    "--set architecture.layers=1 --set architecture.hidden_size=32 --set architecture.ffn=64 "
    "--set architecture.heads=4 --set architecture.kv_heads=2 --set architecture.head_width=8 "
    "--seq-length 32 "
    "--batch-size 2 --micro-batch 1 --workers 0 --sampling sub:1 --set schedule.lr_steps=9 "
    "--warmup 2 "
    "--set evaluation.eval_bytes=512 --save-every 5000 --eval-every 5000"
)
MODEL = OPTIONS.split()
RANKS = 2


@pytest.fixture
def workspace(tokenizer: Path, tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for language in LANGUAGES:
        shutil.copy(SAMPLE / f"{language}.jsonl", tmp_path / "data")
    shutil.copytree(tokenizer, tmp_path / "tokenizer")
    return tmp_path


class Launched:
    """Processes that start the ranks of a run, or are its ranks."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        self.started: list[Python] = []
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            self.port = str(listener.getsockname()[1])

    def start(self, *words: str, **variables: str) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MODTOK_DEVICE": "cpu", **variables}
        self.started.append(
            Python(
                words,
                cwd=self.workspace,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
        )

    def modtok(self, *words: str, **variables: str) -> None:
        self.start("-m", "modtok_cli", "pretrain", "--name", "it", *words, **variables)

    def torchrun(self, *words: str) -> None:
        """Two launchers with a rank each; a rank leaves its process number in a file."""
        write_command(self.workspace / "python", "-m modtok_cli pretrain --name it")
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
        said = [process.communicate(timeout=120)[1] for process in self.started]
        return [process.returncode for process in self.started], said

    def wait_for_steps(self, count: int) -> None:
        metrics = self.workspace / "runs" / "it" / "metrics.jsonl"
        while not (metrics.exists() and metrics.read_bytes().count(b"\n") >= count):
            assert all(process.poll() is None for process in self.started), self.ended()
            time.sleep(0.02)


@pytest.fixture
def launch(workspace: Path) -> Iterator[type[Launched]]:
    made: list[Launched] = []

    def make() -> Launched:
        made.append(Launched(workspace))
        return made[-1]

    yield make  # type: ignore[misc]
    for each in made:
        for process in each.started:
            process.kill()


def losses(workspace: Path) -> list[float]:
    return [line["loss"] for line in read_metrics(workspace / "runs" / "it") if "loss" in line]


def test_two_launchers_train_as_one(workspace: Path, launch) -> None:
    one = launch()
    one.modtok(*MODEL, "--steps", "4", "--gpus", str(RANKS))
    assert one.ended()[0] == [0]
    expected = losses(workspace)
    shutil.rmtree(workspace / "runs" / "it")
    two = launch()
    two.torchrun(*MODEL, "--steps", "4")
    statuses, said = two.ended()
    assert statuses == [0, 0], said
    assert losses(workspace) == expected
    assert len(expected) == 4


def test_a_preempted_run_saves_and_resumes(workspace: Path, launch) -> None:
    number = signal.SIGUSR1  # SIGTERM: test_interrupt
    tasks = launch()
    tasks.srun(*MODEL, "--steps", "5000")
    tasks.wait_for_steps(2)
    for process in tasks.started:
        process.send_signal(number)
    statuses, said = tasks.ended()
    assert statuses == [128 + number] * RANKS
    step = len(losses(workspace))
    lines = [line for text in said for line in text.splitlines() if "stopped" in line]
    assert lines == [
        f"modtok: stopped by {number.name} after step {step}; "
        "resume with modtok pretrain --resume --name it"
    ]
    again = launch()
    again.srun("--resume", "--steps", str(step + 2))
    assert again.ended()[0] == [0] * RANKS
    found = losses(workspace)
    shutil.rmtree(workspace / "runs" / "it")
    unbroken = launch()
    unbroken.modtok(*MODEL, "--steps", str(step + 2), "--gpus", str(RANKS))
    assert unbroken.ended()[0] == [0]
    assert losses(workspace) == found
