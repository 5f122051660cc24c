"""`--gpus N`: start the same command N times on this machine, one rank each.

Under torchrun or srun (RANK is set) this process is a rank and starts no others.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from modtok_cli.base.errors import Exit, ModtokError
from modtok_cli.base.processes import die_with_parent

# Time that the other ranks have to end after one has failed.
_GRACE_SECONDS = 20


def needs_launch(gpus: int | None) -> bool:
    """Whether this process has to start the ranks, instead of being one."""
    return bool(gpus and gpus > 1 and "RANK" not in os.environ)


def launch(args: Sequence[str], count: int) -> int:
    """Run `modtok ARGS…` as `count` ranks; the exit status of the first that failed, or 0.

    Rank 0 speaks for all: the standard output of the others is dropped.

    Raises:
        ModtokError: a rank was killed.
    """
    port = _free_port()
    ranks: list[subprocess.Popen[bytes]] = []
    try:
        for rank in range(count):
            environment = {
                **os.environ,
                "RANK": str(rank),
                "LOCAL_RANK": str(rank),
                "WORLD_SIZE": str(count),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", _threads(count)),
            }
            out = None if rank == 0 else subprocess.DEVNULL
            ranks.append(
                subprocess.Popen(
                    [sys.executable, "-m", "modtok_cli", *args],
                    env=environment,
                    stdout=out,
                    # A run that nobody sees any more would write beside the one resumed.
                    preexec_fn=die_with_parent,
                )
            )
        return _wait(ranks)
    finally:
        _end(ranks)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _threads(count: int) -> str:
    return str(max(1, (os.cpu_count() or 1) // count))


def _wait(ranks: Sequence[subprocess.Popen[bytes]]) -> int:
    """Until all have ended, or one has failed and the rest had time to say so."""
    while True:
        ended = [rank.poll() for rank in ranks]
        failed = [status for status in ended if status]
        if failed:
            deadline = time.monotonic() + _GRACE_SECONDS
            while time.monotonic() < deadline and any(rank.poll() is None for rank in ranks):
                time.sleep(0.1)
            killed = [i for i, rank in enumerate(ranks) if (rank.poll() or 0) < 0]
            if failed[0] < 0 and killed:
                raise ModtokError(
                    f"rank {killed[0]} was killed (signal {-failed[0]})",
                    remedy="go on from the last checkpoint with --resume",
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
