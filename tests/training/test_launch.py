"""Starting ranks, and ranks that die or hang: between threads or small programs."""

import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from helpers.ranks import start_ranks
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.processes import join_slurm_step
from modtok_cli.model.architecture.sizes import SIZES
from modtok_cli.training.distributed import launch as launching
from modtok_cli.training.distributed import ranks, watchdog
from modtok_cli.training.distributed.launch import distinct_messages
from modtok_cli.training.distributed.ranks import Ranks
from modtok_cli.training.distributed.watchdog import Watchdog
from modtok_cli.training.metrics import timing

BEGIN = "import os, sys, time, signal; rank = os.environ['RANK']; "


def started(
    monkeypatch: pytest.MonkeyPatch, program: str, after: Callable[[], object] = int
) -> int:
    """`launch` with a small program in the place of `modtok`; `after` each start of the three."""
    real = launching.subprocess.Popen

    def popen(command: list[str], **options: object) -> object:
        assert command[:3] == [sys.executable, "-m", "modtok_cli"]
        made = real([sys.executable, "-c", BEGIN + program], **options)  # type: ignore[call-overload]
        after()
        return made

    monkeypatch.setattr(launching.subprocess, "Popen", popen)
    return launching.launch(["pretrain"], 3)


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


def test_a_signal_while_ranks_start_reaches_all_and_gives_its_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    came = iter([signal.SIGTERM])

    def once() -> None:
        for number in came:
            signal.raise_signal(number)

    assert started(monkeypatch, "time.sleep(60)", once) == 143


def test_ctrl_c_ends_the_wait_for_standard_input() -> None:
    """No rank is there yet that it could be forwarded to."""
    source: Any = SimpleNamespace(read=lambda size: signal.raise_signal(signal.SIGINT))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs may ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            launching.launch(["generate"], 2, source=source)
    finally:
        signal.signal(signal.SIGINT, before)


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
        assert launcher.wait(600) == -signal.SIGKILL
        assert select.select([reader], [], [], 600)[0], "a rank is still there"
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


def test_a_rank_fails_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranks, "gather_json", lambda *_: [None, "disk full"])
    with pytest.raises(ModtokError, match="rank 1 failed: disk full"):
        ranks.raise_together(ranks_of(0, 2), None)


RANK = """
import os, sys
from modtok_cli.training.distributed.ranks import gather_json, start_ranks
from modtok_cli.training.distributed.watchdog import Watchdog
ranks = start_ranks()
with Watchdog(ranks, 600):
    print("ready", flush=True)
    for turn in range(10**9 if ranks.first else 3):
        gather_json(ranks, turn)
    sys.stdin.read()
"""


def ranks_of(rank: int, world: int) -> Ranks:
    return Ranks(rank, world, 0, 1, rank, world, torch.device("cpu"), None, None)


class Ended(list):  # type: ignore[type-arg]
    """What a watchdog reported, instead of an end of the process."""

    def __init__(self) -> None:
        self.event = Event()

    def __call__(self, message: str, report: bool) -> None:
        self.append((message, report))
        self.event.set()


class Three:
    """Three watchdogs in threads: their `gather_json` returns what rank 0 gave.

    Their clock goes on only once all have heard of each other, however slow this machine is.
    """

    now = 0.0
    silent = -1  # a rank that does not go on

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, hang_seconds: float, entered: tuple[int, ...]
    ) -> None:
        self.given: list[Any] = []
        self.entered, self.turns = entered, [0, 0, 0]
        self.ended = [Ended() for _ in range(3)]
        self.dogs = [
            Watchdog(ranks_of(n, 3), hang_seconds, self.ended[n], partial(self.reached, n))
            for n in range(3)
        ]
        ready = Event()

        def gather(ranks: Ranks, item: Any) -> list[Any]:
            if ranks.first and item:
                self.given.append(item)
                ready.set()
            assert ready.wait(600)
            return list(self.given)

        monkeypatch.setattr(watchdog, "gather_json", gather)
        monkeypatch.setattr(watchdog, "time", SimpleNamespace(monotonic=lambda: self.now))
        for one in self.dogs:
            one.__enter__()
        self.threads: list[Any] = [one._thread for one in self.dogs]

    def reached(self, rank: int) -> int:
        self.turns[rank] += 1
        return self.entered[rank]

    def pass_seconds(self, seconds: float) -> None:
        """In eight steps; in each, ranks speak and hear twice."""
        for _ in range(8):
            self.now += seconds / 8
            for rank in (0, 1, 2) * 2:
                until = self.turns[rank] + 3
                while self.turns[rank] < until and rank != self.silent:
                    if not self.threads[rank].is_alive():
                        break
                    time.sleep(0.001)

    def close(self) -> None:
        for one in self.dogs:
            one.__exit__(None)
        for thread in self.threads:
            thread.join(600)


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(watchdog, "_SECONDS", 0.004)
    monkeypatch.setattr(watchdog, "_GOODBYE_SECONDS", 40.0)
    with ExitStack() as stack:

        def make(hang_seconds: float = 1e9, entered: tuple[int, ...] = (5, 5, 5)) -> Three:
            made = Three(monkeypatch, hang_seconds, entered)
            stack.callback(made.close)
            return made

        yield make


def test_ranks_that_end_in_order_are_not_reported(three: Any) -> None:
    found = three()
    found.pass_seconds(1)
    found.dogs[2].__exit__(None)
    found.pass_seconds(80)
    found.close()
    assert found.ended == [[], [], []]


@pytest.mark.parametrize(("failed", "reporter", "other"), [(2, 0, 1), (0, 1, 2)])
def test_a_rank_that_ends_with_an_error_ends_the_others(
    three: Any, monkeypatch: pytest.MonkeyPatch, failed: int, reporter: int, other: int
) -> None:
    found = three()
    if failed == 0:  # others wait for it by the real clock
        monkeypatch.setattr(watchdog, "_GOODBYE_SECONDS", 0.2)
    found.dogs[failed].__exit__(ValueError)
    found.pass_seconds(80)
    for rank in (reporter, other):  # and one rank reports it
        assert found.ended[rank].event.wait(600)
        assert found.ended[rank] == [(f"rank {failed} has ended", rank == reporter)]
    assert found.ended[failed] == []


@pytest.mark.parametrize(
    ("silent", "reporter", "said"),
    [(2, 0, "rank 2 has not answered for 60 s"), (0, 1, "rank 0 has ended")],
)
def test_ranks_hear_of_each_other_and_a_silent_one_is_named(
    three: Any, monkeypatch: pytest.MonkeyPatch, silent: int, reporter: int, said: str
) -> None:
    found, held = three(), Event()
    found.pass_seconds(100)
    assert found.ended == [[], [], []]
    monkeypatch.setattr(watchdog, "_GOODBYE_SECONDS", 0.2)
    found.silent, found.dogs[silent].reached = silent, lambda: int(held.wait(600))
    found.pass_seconds(100)
    assert found.ended[reporter].event.wait(600)
    held.set()
    assert found.ended[reporter] == [(said, True)]


def test_an_error_of_all_ranks_is_left_to_them(three: Any) -> None:
    found = three()
    for one in found.dogs[::-1]:
        found.pass_seconds(8)
        one.__exit__(ValueError)
    found.close()
    assert found.ended == [[], [], []]


@pytest.mark.parametrize(
    ("entered", "line"),
    [
        ((5, 5, 5), "no rank has made progress for 8 s"),
        ((6, 5, 6), "rank 1 has made no progress for 8 s, the others wait for it"),
    ],
)
def test_a_run_without_progress_ends(three: Any, entered: tuple[int, ...], line: str) -> None:
    """A rank that the others wait for is named."""
    found = three(6.0, entered)
    found.pass_seconds(16)
    assert found.ended[0] == [(f"{line} (--set parallelism.hang_timeout)", True)]


def test_a_gpu_has_come_to_what_its_device_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host runs ahead: of ranks whose hosts wait alike, the one that stopped is named."""
    done: list[bool | RuntimeError] = [True, True, False, True]

    class Mark:
        def __init__(self) -> None:
            self.number = len(made)
            made.append(self)

        def record(self) -> None:
            pass

        def query(self) -> bool:
            answer = done[self.number]
            if isinstance(answer, RuntimeError):
                raise answer
            return answer

    made: list[Mark] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "Event", Mark)
    monkeypatch.setattr(ranks, "_marks", deque())
    before = ranks.collectives_reached()
    for _ in done:
        ranks.entering()
    assert ranks.collectives_reached() == before + 2
    done[2] = RuntimeError("CUDA error: unspecified launch failure")
    assert ranks.collectives_reached() == before + 2
    done[2] = True
    assert ranks.collectives_reached() == before + 4


def test_the_end_of_another_rank_is_not_the_reason() -> None:
    messages = ["error: rank 1 has ended; resume", "error: disk full"]
    assert distinct_messages(messages) == ["error: disk full"]
    assert distinct_messages(messages[:1]) == messages[:1]


def test_a_rank_that_is_killed_ends_a_run_of_two_launchers() -> None:
    ranks = start_ranks(2, "-c", RANK, stdin=subprocess.PIPE)
    assert all(rank.stdout.readline() == b"ready\n" for rank in ranks if rank.stdout)
    ranks[1].kill()
    _, err = ranks[0].communicate(timeout=600)
    ranks[1].communicate()
    assert ranks[0].returncode == 1
    lines = err.decode().splitlines()
    assert lines[-1] == "error: rank 1 has ended; resume from the last checkpoint with --resume"
