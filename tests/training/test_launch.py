"""Starting ranks, sizes of presets and times of steps: what needs no training."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from modtok_cli.architectures.sizes import SIZES
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.processes import join_slurm_step
from modtok_cli.training.distributed import launch as launching
from modtok_cli.training.distributed import ranks
from modtok_cli.training.metrics import timing

RANK = "import os, sys, time, signal; rank = os.environ['RANK']; "


def started(monkeypatch: pytest.MonkeyPatch, program: str, count: int = 3) -> int:
    """`launch` with a small program in the place of `modtok`."""
    real = launching.subprocess.Popen

    def popen(command: list[str], **options: object) -> object:
        assert command[:3] == [sys.executable, "-m", "modtok_cli"]
        return real([sys.executable, "-c", RANK + program], **options)  # type: ignore[call-overload]

    monkeypatch.setattr(launching.subprocess, "Popen", popen)
    return launching.launch(["pretrain"], count)


def test_every_rank_knows_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = f"open(os.path.join({str(tmp_path)!r}, rank), 'w').write("
    program += "os.environ['WORLD_SIZE'] + os.environ['LOCAL_RANK'] + os.environ['MASTER_ADDR'])"
    assert started(monkeypatch, program) == 0
    found = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert found == {str(rank): f"3{rank}127.0.0.1" for rank in range(3)}


def test_one_rank_that_fails_ends_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "_GRACE_SECONDS", 0.3)
    assert started(monkeypatch, "sys.exit(2) if rank == '1' else time.sleep(60)") == 2


def test_a_rank_that_is_killed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "_GRACE_SECONDS", 0.3)
    program = "os.kill(os.getpid(), signal.SIGKILL) if rank == '2' else time.sleep(60)"
    with pytest.raises(ModtokError, match=r"rank 2 was killed \(signal 9\).*--resume"):
        started(monkeypatch, program)


LAUNCHER = """
import os, signal, subprocess, sys
from modtok_cli.training.distributed import launch
real = subprocess.Popen
def popen(command, **options):
    held = [int(sys.argv[1])]  # open as long as the rank is there
    return real(["sleep", "600"], pass_fds=held, preexec_fn=options.get("preexec_fn"))
launch.subprocess.Popen = popen
launch._wait = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
launch.launch(["pretrain"], 2)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel is asked, and only Linux answers")
def test_ranks_end_with_the_process_that_started_them() -> None:
    reader, writer = os.pipe()
    command = [sys.executable, "-c", LAUNCHER, str(writer)]
    launcher = subprocess.Popen(command, pass_fds=[writer])
    os.close(writer)
    try:
        assert launcher.wait(120) == -signal.SIGKILL
        assert select.select([reader], [], [], 60)[0], "a rank is still there"
        assert os.read(reader, 1) == b""
    finally:
        os.close(reader)


@pytest.mark.parametrize(
    ("name", "millions"),
    [("0.5b", 504), ("1b", 991), ("2.5b", 2548), ("7b", 7550), ("12b", 11797), ("30b", 30058)],
)
def test_presets_have_the_parameters_they_are_named_after(name: str, millions: int) -> None:
    shape = SIZES[name]
    assert round(shape.parameters / 1e6) == millions
    assert shape.head_width == 128
    assert shape.heads == 2 * shape.kv_heads == shape.hidden_size // 128
    assert shape.ffn * 4 == shape.hidden_size * 11


def test_timing_by_hand() -> None:
    assert timing(seconds=2.0, tokens=100, flops=1e9, peak=1e9, world=2) == {
        "step_seconds": 2.0,
        "tokens_per_second": 50.0,
        "model_flops_per_second": 500_000_000,
        "mfu": 0.25,
    }


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({}, None),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "16"}, None),  # a batch script
        ({"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, None),
        (
            {"SLURM_STEP_NUM_TASKS": "16", "SLURM_PROCID": "9", "SLURM_LOCALID": "1",
             "SLURM_STEP_NODELIST": "gpu[007-008,012],other3", "SLURM_JOB_ID": "20003",
             "SLURM_STEP_ID": "1"},
            ("9", "1", "16", "gpu007", "15100"),
        ),
        (
            {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1", "SLURM_LOCALID": "0",
             "SLURM_STEP_NODELIST": "a-1,a-2", "MASTER_PORT": "9"},
            ("1", "0", "2", "a-1", "9"),
        ),
        ({"SLURM_STEP_NUM_TASKS": "2", "RANK": "0"}, ("0", None, None, None, None)),
    ],
)  # fmt: skip
def test_tasks_of_srun_are_ranks(
    variables: dict[str, str],
    place: tuple[str | None, ...] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "environ", dict(variables))
    join_slurm_step()
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    assert tuple(map(os.environ.get, names)) == (place or (None,) * 5)


@pytest.mark.parametrize(("shards", "expected"), [(1, None), (2, "1")])
def test_a_device_of_a_shard_is_opened_with_one_queue(
    shards: int, expected: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened() -> None:
        raise InterruptedError(os.environ.get("CUDA_DEVICE_MAX_CONNECTIONS"))

    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("CUDA_DEVICE_MAX_CONNECTIONS", "")  # restored after the test
    monkeypatch.delenv("CUDA_DEVICE_MAX_CONNECTIONS")
    monkeypatch.setattr(ranks, "pick_device", opened)
    with pytest.raises(InterruptedError, match=str(expected)):
        ranks.start_ranks(shards)
