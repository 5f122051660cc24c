"""Tasks of a build or count on Ray: a cluster by its address, or one on this machine.

Each task is a function call of Ray, which repeats it when its worker is killed. datatrove's own
executor for Ray runs a task in a further process of a worker, and waits forever if that is killed.
"""

import logging
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Task
from modtok_cli.corpus.build_plan import BuildStage
from modtok_cli.corpus.slurm import missing
from modtok_cli.text.parallel import cores

OPTIONS = ("cpus_per_task", "gpus_per_task", "mem_per_cpu_gb")
_CONNECT_SECONDS = 10.0
_RETRIES = 3
"""How often Ray repeats a task whose worker was killed."""


def run_on_ray(
    stages: Sequence[BuildStage],
    logs: Path,
    workers: int | None,
    options: Mapping[str, Any],
    task: Task,
) -> None:
    """Run the stages, at most `workers` tasks at a time.

    Raises:
        UsageError: Ray is not installed, or an option is unknown.
        ModtokError: Ray does not start, or a task failed.
    """
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            "--executor ray requires the package ray", remedy="pip install ray"
        ) from error
    is_ours = not ray.is_initialized()
    if is_ours:
        _start(ray, workers)
    try:
        for stage in stages:
            for _ in _run_stage(ray, stage, logs, workers, _needs(options)):
                task.advance()
    except ray.exceptions.RayTaskError as error:  # raised by the task itself
        cause = error.cause
        if isinstance(cause, ModtokError):
            raise ModtokError(str(cause)) from error
        raise ModtokError(
            f"a task failed ({type(cause).__name__}: {cause})", where=logs, remedy="see the logs"
        ) from error
    except ray.exceptions.RayError as error:  # Ray has lost workers or the cluster
        raise ModtokError(
            f"Ray failed ({_line(error)})",
            where=logs.parents[1],
            remedy="repeat the call to resume; fewer --workers need less memory",
        ) from error
    finally:
        if is_ours:
            ray.shutdown()


def _start(ray: Any, workers: int | None) -> None:
    address = os.environ.get("RAY_ADDRESS") or "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    given: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        given |= {"num_cpus": workers or cores(), "include_dashboard": False}
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        if port.isdigit():  # Ray itself tries for minutes
            socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()
        ray.init(address=address, **given)
    except Exception as error:  # of many types
        remedy = "free memory and disk space"
        if address != "local":
            remedy = "check $RAY_ADDRESS; a cluster with tokens needs RAY_AUTH_MODE=token here too"
        raise ModtokError(
            f"Ray does not start ({_line(error)})",
            where=None if address == "local" else address,
            remedy=remedy,
        ) from error


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")


def _needs(options: Mapping[str, Any]) -> dict[str, float]:
    """The resources that a task reserves, as Ray names them: CPUs, GPUs, bytes of memory."""
    cpus = float(options.get("cpus_per_task", 1))
    needs = {"num_cpus": cpus, "num_gpus": float(options.get("gpus_per_task", 0))}
    if "mem_per_cpu_gb" in options:
        needs["memory"] = int(float(options["mem_per_cpu_gb"]) * cpus * 2**30)
    return needs


def _run_stage(
    ray: Any, stage: BuildStage, logs: Path, workers: int | None, needs: Mapping[str, float]
) -> Iterator[None]:
    """Run a stage; an item for each task that is done."""
    from modtok_cli.corpus.executor_tasks import Tasks

    waiting = missing(stage, logs)
    if not waiting:
        return
    executor = ray.put(Tasks(stage, logs))
    task = ray.remote(run_rank).options(max_retries=_RETRIES, **needs)
    running: list[Any] = []
    try:
        while waiting or running:
            while waiting and len(running) < (workers or stage.tasks):
                running.append(task.remote(executor, waiting.pop(0)))
            done, running = ray.wait(running)
            ray.get(done)
            yield
    finally:
        for each in running:
            ray.cancel(each, force=True)


def run_rank(executor: Any, rank: int) -> None:
    """Run one task, in a worker of Ray."""
    from loguru import logger

    logger.disable("datatrove")
    executor.run_rank(rank)
