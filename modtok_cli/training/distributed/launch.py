"""`--gpus N`: start the same command N times on this machine, one rank each.

Under torchrun (RANK is set) or as a task of srun this process is a rank and starts no others.

`torch.distributed.run` does not do the same: it ends the other ranks at once when one has failed,
so that they cannot report or save; it kills them 30 s after a signal, before a long step and its
checkpoint end; it has no SIGUSR1 by default, no standard input for all ranks and no common message;
and importing it takes seconds and the memory of torch, in a process that only waits.
"""

from __future__ import annotations

import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from shutil import copyfileobj
from types import FrameType
from typing import Any, BinaryIO

from modtok_cli.base.errors import Exit, ModtokError
from modtok_cli.base.files import scratch_directory
from modtok_cli.base.processes import MESSAGES, die_with_parent, environment, join_slurm_step

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)
"""Signals that end a run in order: forwarded to each rank, which saves a checkpoint."""

# Time that the other ranks have to end after one has failed.
_GRACE_SECONDS = 20
# Standard input of all ranks, in the directory of their messages.
_INPUT = "input"
# What to do after a rank of a training run has ended.
RESUME = "resume from the last checkpoint with --resume"
# Messages of ranks that ended because another did.
_CONSEQUENCES = r"error: (internal error|rank \d+ has ended)"


def needs_launch(gpus: int | None) -> bool:
    """Whether this process has to start the ranks, instead of being one."""
    join_slurm_step()
    return bool(gpus and gpus > 1 and "RANK" not in os.environ)


class RanksFailed(ModtokError):
    """Ranks failed; the message is theirs, and so is the exit status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.exit_code = status
        self.label = ""
        self.remedy = ""  # the message has it


def free_port() -> int:
    """A port of this machine that nobody listens on, where the ranks of a run may meet.

    Below the ports that the kernel gives to connections: of these, another process may get the
    same before the first rank listens.
    """
    while True:
        port = 15000 + secrets.randbelow(10000)
        with suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port


def launch(
    args: Sequence[str],
    count: int,
    *,
    source: BinaryIO | None = None,
    grace: float | None = None,
    remedy: str = RESUME,
) -> int:
    """Run `modtok ARGS…` as `count` ranks; returns the exit status of the first that failed, or 0.

    The standard output of ranks other than 0 is discarded. `SIGNALS` are forwarded
    to each rank. `source` is read to its end, and every rank has all of it as standard input.
    After one has failed, the others have `grace` seconds to end by themselves, by default 20.
    `remedy` says what to do if a rank is killed.

    Raises:
        RanksFailed: ranks reported errors; each different one is in the message once.
        ModtokError: a rank was killed.
    """
    port = str(free_port())
    threads = str(max(1, (os.cpu_count() or 1) // count))
    ranks: list[subprocess.Popen[bytes]] = []
    early: list[int] = []  # signals that came before all ranks were started
    forwarded: set[int] = set()

    def forward(number: int, frame: FrameType | None) -> None:
        forwarded.add(number)
        for rank in ranks:
            if rank.poll() is None:
                rank.send_signal(number)

    with scratch_directory() as messages, ExitStack() as signals:
        text = messages / _INPUT
        if source is not None:
            with open(text, "wb") as file:
                copyfileobj(source, file)
        signals.enter_context(handling(lambda number, frame: early.append(number)))
        try:
            for rank in range(count):
                variables = {
                    **environment(),
                    MESSAGES: str(messages),
                    "RANK": str(rank),
                    "LOCAL_RANK": str(rank),
                    "WORLD_SIZE": str(count),
                    "MASTER_ADDR": "127.0.0.1",
                    "MASTER_PORT": port,
                    "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads),
                }
                with open(text, "rb") if source is not None else nullcontext() as stdin:
                    ranks.append(
                        subprocess.Popen(
                            [sys.executable, "-m", "modtok_cli", *args],
                            env=variables,
                            stdin=stdin,
                            stdout=None if rank == 0 else subprocess.DEVNULL,
                            # Ctrl-C reaches the launcher only, which forwards it.
                            process_group=0,
                            # Ranks without a launcher would write beside a resumed run.
                            preexec_fn=die_with_parent,
                        )
                    )
            signals.enter_context(handling(forward))
            for number in early:
                forward(number, None)
            grace = _GRACE_SECONDS if grace is None else grace
            status = _wait(ranks, grace, remedy, forwarded)
        finally:
            _end(ranks)
        text.unlink(missing_ok=True)
        errors = [path.read_text() for path in sorted(messages.iterdir())]
    if status and errors:
        raise RanksFailed("; ".join(distinct_messages(errors)), status)
    return status


def distinct_messages(messages: Sequence[str]) -> list[str]:
    """The messages of ranks without repetitions.

    "rank 1 failed: …" on the other ranks repeats the message of rank 1. A rank whose peer has
    gone ends in an internal error of the communication library, or says that the peer has ended:
    both are left out if another rank gives the reason.

    >>> distinct_messages(["error: rank 1 failed: disk full", "error: disk full"])
    ['error: disk full']
    """
    plain = [re.sub(r"^error: rank \d+ failed: ", "error: ", message) for message in messages]
    reasons = [message for message in plain if not re.match(_CONSEQUENCES, message)]
    return list(dict.fromkeys(reasons)) or plain[:1]


@contextmanager
def handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Context with a handler of `SIGNALS`; without effect outside of the main thread.

    SIGHUP, of a terminal that is closed, stays ignored under nohup.
    """
    previous: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        previous = {
            each: signal.signal(each, handler)
            for each in SIGNALS
            if each != signal.SIGHUP or signal.getsignal(each) != signal.SIG_IGN
        }
    try:
        yield
    finally:
        for each, before in previous.items():
            signal.signal(each, before)


def _wait(
    ranks: Sequence[subprocess.Popen[bytes]], grace: float, remedy: str, forwarded: Collection[int]
) -> int:
    """Wait until all have ended, or one has failed and the others had time to end."""
    while True:
        ended = [rank.poll() for rank in ranks]
        failed = [status for status in ended if status]
        if failed:
            deadline = time.monotonic() + grace
            while time.monotonic() < deadline and any(rank.poll() is None for rank in ranks):
                time.sleep(0.1)
            if -failed[0] in forwarded:  # before the rank had a handler
                return 128 - failed[0]
            killed = [i for i, rank in enumerate(ranks) if (rank.poll() or 0) < 0]
            if failed[0] < 0 and killed:
                raise ModtokError(
                    f"rank {killed[0]} was killed (signal {-failed[0]})", remedy=remedy
                )
            return failed[0]
        if all(status == Exit.OK for status in ended):
            return Exit.OK
        time.sleep(0.1)


def _end(ranks: Sequence[subprocess.Popen[bytes]]) -> None:
    for rank in ranks:
        if rank.poll() is None:
            rank.send_signal(signal.SIGTERM)
    for rank in ranks:
        try:
            rank.wait(_GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            rank.kill()
            rank.wait()
