"""Run datatrove pipelines on this machine, on Slurm or on Ray."""

import os
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Annotated, Any, Literal

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.locks import locked
from modtok_cli.base.option import Option
from modtok_cli.base.processes import starting_processes
from modtok_cli.base.progress import SILENT, Progress, Task
from modtok_cli.corpus.build_plan import JOBS, BuildStage
from modtok_cli.corpus.ray_tasks import OPTIONS as RAY_OPTIONS
from modtok_cli.corpus.ray_tasks import run_on_ray
from modtok_cli.corpus.slurm import Jobs, check_no_jobs, missing
from modtok_cli.text.parallel import cores

_LOOK_SECONDS = 2.0
_LOCK_SECONDS = 60.0
_ARGUMENTS = ("sbatch_args", "srun_args")
"""Options that are arguments of Slurm's commands, such as account=lab,constraint=a100."""


def executor_options(value: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """Options of an executor by name, from a mapping or from texts KEY=VALUE.

    >>> executor_options(["partition=cpu", "time=10:00:00"])
    {'partition': 'cpu', 'time': '10:00:00'}

    Raises:
        ValueError: an option without a valid key or "=", or a key given twice.
    """
    if isinstance(value, Mapping):
        return dict(value)
    options = {}
    for text in value:
        key, equals, content = text.partition("=")
        if not (key.isidentifier() and equals):
            raise ValueError(f"expected KEY=VALUE, got {text!r}")
        if key in options:
            raise ValueError(f"{key} is given twice")
        options[key] = content
    return options


Executor = Literal["local", "slurm", "ray"]
ExecutorOptions = Annotated[
    Mapping[str, str] | None,
    Option(
        "Option passed to the datatrove executor, such as partition=cpu. Repeatable.",
        flags="--executor-option",
        kind=list[str],
        metavar="KEY=VALUE",
        parse=executor_options,
    ),
]
Workers = Annotated[
    int | None, Option("Number of parallel tasks. Default: one per core.", metavar="N", low=1)
]
Wait = Annotated[bool, Option("Wait until the jobs on Slurm are done.")]


def check_executor(kind: str, options: Mapping[str, str]) -> dict[str, Any]:
    """Options of an executor, with numbers and lists of arguments converted.

    Raises:
        UsageError: options for the local one, unknown ones of Ray, missing ones of Slurm, or values
            of another type.
    """
    unknown = [name for name in options if kind == "ray" and name not in RAY_OPTIONS]
    if unknown:
        raise UsageError(
            f"unknown option of Ray: {', '.join(unknown)}",
            where="--executor-option",
            remedy=f"use {', '.join(RAY_OPTIONS)}; $RAY_ADDRESS names a cluster",
        )
    if kind == "local" and options:
        raise UsageError("--executor-option requires slurm or ray", remedy="remove it")
    missing = [name for name in ("partition", "time") if kind == "slurm" and name not in options]
    if missing:
        raise UsageError(
            f"Slurm needs {' and '.join(missing)}",
            remedy="pass --executor-option partition=NAME --executor-option time=HH:MM:SS",
        )
    return {name: _value(kind, name, text) for name, text in options.items()}


def _value(kind: str, name: str, text: str) -> Any:
    try:
        if kind == "ray":
            return float(text)
        if name in _ARGUMENTS:
            return executor_options(text.split(","))
    except ValueError as error:
        raise UsageError(f"{name}: {error}", where="--executor-option") from error
    return int(text) if text.isascii() and text.isdigit() else text


def run_stages(
    stages: Sequence[BuildStage],
    logs: Path,
    kind: str = "local",
    workers: int | None = None,
    options: Mapping[str, Any] | None = None,
    *,
    before: int | None = None,
    progress: Progress = SILENT,
) -> None:
    """Run the stages. Finished tasks are not repeated.

    `before`: with Slurm, how many tasks were left when this call looked the last time.

    Raises:
        ModtokError: a task failed or was killed.
        Unfinished: jobs on Slurm are unfinished.
    """
    from loguru import logger

    logger.disable("datatrove")  # in this process; logs of the tasks are files under `logs`
    if kind == "slurm":
        Jobs(stages, logs, workers, options or {}).advance(before)
    else:
        check_no_jobs(logs)
        total = sum(stage.tasks for stage in stages)
        with progress.task("running tasks", total, "tasks") as task:
            task.advance(total - sum(len(missing(stage, logs)) for stage in stages))
            if kind == "ray":
                run_on_ray(stages, logs, workers, options or {}, task)
            else:
                _run_here(stages, logs, workers or cores(), task)
    (logs / JOBS).unlink(missing_ok=True)


@contextmanager
def one_caller(output: Path, kind: str) -> Iterator[None]:
    """Create and lock the output; callers of Slurm do so for a moment and wait for each other."""
    is_new = not output.exists()
    output.mkdir(parents=True, exist_ok=True)
    with locked(output, seconds=_LOCK_SECONDS if kind == "slurm" else 0):
        try:
            yield
        finally:
            if is_new:  # nothing is left of a call that was refused
                with suppress(OSError):
                    output.rmdir()


def _run_here(stages: Sequence[BuildStage], logs: Path, workers: int, task: Task) -> None:
    """Run every stage in a pool that detects killed workers."""
    from modtok_cli.corpus.executor_tasks import Tasks

    executors = [Tasks(stage, logs) for stage in stages]
    waiting = [(each, each.get_incomplete_ranks()) for each in executors]
    if not any(ranks for _, ranks in waiting):
        return
    logs.mkdir(parents=True, exist_ok=True)
    context = get_context("forkserver")
    # Imported once by the server, not by every worker.
    blocks = {type(block).__module__ for stage in stages for block in stage.blocks}
    context.set_forkserver_preload([Tasks.__module__, *sorted(blocks)])
    with starting_processes():
        pool = ProcessPoolExecutor(
            min(workers, max(len(ranks) for _, ranks in waiting)),
            mp_context=context,
            initializer=_begin_worker,
            initargs=(str(logs / "workers.log"),),
        )
    try:
        for executor, ranks in waiting:
            with starting_processes():
                futures = [pool.submit(executor.run_rank, rank) for rank in ranks]
            pending: set[Future[Any]] = set(futures)
            while pending:
                done, pending = wait(pending, _LOOK_SECONDS, return_when=FIRST_COMPLETED)
                for future in done:
                    future.result()
                    task.advance()
                if pending and not _is_managed(pool):
                    raise BrokenProcessPool("its manager died")
    except BrokenProcessPool as error:
        raise ModtokError(
            "a worker was killed, possibly for lack of memory",
            remedy="repeat the call to resume; fewer --workers need less memory",
        ) from error
    except OSError as error:  # of a task; not always with a file name
        raise ModtokError(
            f"interrupted: {error.strerror or error}",
            where=os.fsdecode(error.filename) if error.filename else str(logs.parent),
            remedy="free space or memory, then repeat the call to resume",
        ) from error
    finally:
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def _is_managed(pool: ProcessPoolExecutor) -> bool:
    """Whether the pool's manager thread is alive; without it no task ever finishes."""
    thread = getattr(pool, "_executor_manager_thread", None)
    return thread is None or bool(thread.is_alive())


def _begin_worker(log: str) -> None:
    """Initialize a worker: log to a file, ignore Ctrl-C, exit with the process that started it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(handle, 2)

    def watch() -> None:
        parent = parent_process()
        assert parent is not None
        parent.join()  # by a pipe that its end closes: its number lives on as long as a zombie
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
