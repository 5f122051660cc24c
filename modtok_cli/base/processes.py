"""Child processes."""

import os
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from types import ModuleType

from modtok_cli.base.interrupts import deferred

# Set by the process that starts ranks: a directory for their error messages.
MESSAGES = "MODTOK_RANK_MESSAGES"

_MAIN = Lock()
_SAFE_PATH = "PYTHONSAFEPATH"


def report_to_launcher(message: str) -> bool:
    """Leave a message for the process that started this rank; False if there is none.

    Ranks often fail together, for the same reason: the launcher prints it once.
    """
    directory = os.environ.get(MESSAGES)
    if directory is None:
        return False
    try:
        Path(directory, os.environ.get("RANK", "0")).write_text(message, encoding="utf-8")
    except OSError:  # the launcher is gone
        return False
    return True


def join_slurm_step() -> None:
    """As a task of srun with others: set torchrun's variables, unless they are set.

    A batch script is no such task; it has SLURM_PROCID too, but no number of tasks of a step.
    """
    environment = os.environ
    tasks = environment.get("SLURM_STEP_NUM_TASKS", "1")
    if "RANK" in environment or tasks == "1":
        return
    # The first of node[03-07,12],other is node03: tasks are numbered from there.
    nodes = re.sub(r"\[(\w+)[^]]*\]", r"\1", environment.get("SLURM_STEP_NODELIST", "127.0.0.1"))
    job, step = (environment.get(f"SLURM_{name}_ID", "0") for name in ("JOB", "STEP"))
    environment["RANK"] = environment.get("SLURM_PROCID", "0")
    environment["LOCAL_RANK"] = environment.get("SLURM_LOCALID", "0")
    environment["WORLD_SIZE"] = tasks
    environment.setdefault("MASTER_ADDR", nodes.split(",")[0])
    environment.setdefault("MASTER_PORT", str(15000 + (int(job) + 97 * int(step)) % 10000))


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent ends for any reason.

    A busy child does not read the end of its input, and does not receive Ctrl-C when its
    parent is killed. Linux only; a no-op elsewhere.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def environment() -> dict[str, str]:
    """Environment of a Python process that finds the modules of this one.

    It imports no others: `python -m` alone would import files of the current directory.
    """
    path = os.pathsep.join(filter(None, sys.path))
    return {**os.environ, "PYTHONPATH": path, _SAFE_PATH: "1"}


@contextmanager
def starting_processes() -> Iterator[None]:
    """Start processes of multiprocessing that do not import the main module.

    It may be a script that calls modtok outside `if __name__ == "__main__"`, and would do so again.
    Nor do they import files of the current directory before they have the path of this process.
    Ctrl-C is for this process, which ends them.
    """
    from multiprocessing import resource_tracker

    with _MAIN:
        main, safe = sys.modules["__main__"], os.environ.get(_SAFE_PATH)
        sys.modules["__main__"] = ModuleType("__main__")
        os.environ[_SAFE_PATH] = "1"
        try:
            # Before signals are blocked: the start of this process unblocks them.
            resource_tracker.ensure_running()
            with deferred():
                yield
        finally:
            sys.modules["__main__"] = main
            if safe is None:
                del os.environ[_SAFE_PATH]
            else:
                os.environ[_SAFE_PATH] = safe
