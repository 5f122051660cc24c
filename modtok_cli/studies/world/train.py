"""Train several small runs, in this process or in several; begin one with the steps of another."""

import os
import shutil
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from multiprocessing import get_context
from threading import Lock

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.files import atomic_directory
from modtok_cli.base.processes import die_with_parent, starting_processes
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.training.settings import RunSettings


def constant_steps(steps: int) -> int:
    """Last step with the peak learning rate in a run of `steps`; the last fifth is the decay.

    >>> constant_steps(300), constant_steps(2)
    (240, 1)
    """
    return steps - max(1, steps // 5)


def point_of(run: RunSettings, steps: int) -> RunSettings:
    """`run` with a length, a schedule and checkpoints such that a longer one can continue it."""
    constant = constant_steps(steps)
    return replace(
        run, steps=steps, schedule="wsd", decay_steps=steps - constant, eval_every=steps,
        save_every=constant, keep_every=constant, keep=1,
    )  # fmt: skip


def train_point(
    run: RunSettings, *, shorter: int | None = None, progress: Progress = SILENT
) -> None:
    """Train or resume a run of `point_of`, whose name ends with its number of steps.

    A new one continues the constant steps of that with `shorter` steps: up to there the two are
    the same, bit for bit. torch is imported here: the parent of other processes needs none.
    """
    from modtok_cli.training.study import train_or_resume

    if shorter is not None:
        _continue(run, shorter)
    train_or_resume(run, progress=progress)


def _continue(run: RunSettings, shorter: int) -> None:
    """Write the directory of `run` as it was after the constant steps of the shorter run."""
    from modtok_cli.training.checkpoint.files import step_directory
    from modtok_cli.training.config import resolve
    from modtok_cli.training.opening import TOKENIZER
    from modtok_cli.training.rundir import CHECKPOINTS, METRICS, RunDirectory

    config = resolve(run, gpu=False)
    path = config.runs / str(run.name)
    if path.exists():
        return
    source = path.with_name(f"{path.name.rpartition('-')[0]}-{shorter}")
    short, step = RunDirectory(source), constant_steps(shorter)
    content = short.read_config()
    with atomic_directory(path) as beside:
        shutil.copytree(source / TOKENIZER, beside / TOKENIZER)
        checkpoint = step_directory(short.checkpoints, step)
        shutil.copytree(checkpoint, beside / CHECKPOINTS / checkpoint.name)
        shutil.copyfile(short.metrics, beside / METRICS)  # later lines are removed on resuming
        RunDirectory(beside).write_config({**content, "config": config.as_json()})


def train_runs(
    runs: Sequence[RunSettings],
    *,
    workers: int,
    progress: Progress = SILENT,
    train: Callable[..., object] = train_point,
) -> None:
    """Train runs, resume them, or leave those that are finished.

    Args:
        workers: runs that are trained at the same time, each on its share of the cores.
        train: trains one.
    """
    if workers == 1 or len(runs) < 2:
        for number, run in enumerate(runs, 1):
            progress.note(f"{run.runs}/{run.name}: run {number} of {len(runs)}")
            train(run, progress=progress)
        return
    workers = min(workers, len(runs))
    alone = _Alone(workers, train)
    threads = ThreadPoolExecutor(workers)
    try:
        with progress.task("training", len(runs), "runs") as task:
            futures = {threads.submit(alone.train, run): run for run in runs}
            for future in as_completed(futures):
                run = futures[future]
                try:
                    future.result()
                except BrokenProcessPool as error:
                    raise ModtokError(
                        "a training process was killed, possibly for lack of memory",
                        remedy="repeat the command to resume; fewer --workers need less memory",
                    ) from error
                progress.note(f"{run.runs}/{run.name}: trained")
                task.advance()
    finally:
        alone.stop()
        threads.shutdown(cancel_futures=True)


class _Alone:
    """Trains each run in a process of its own: it leaves process groups and memory behind.

    A pool of one process for each run: a pool that replaces its processes after a task may wait
    forever for one when it ends (python/cpython#115634).
    """

    def __init__(self, workers: int, train: Callable[..., object]) -> None:
        self._workers = workers
        self._train = train
        self._lock = Lock()
        self._stopped = False
        self._pools: set[ProcessPoolExecutor] = set()

    def train(self, run: RunSettings) -> None:
        """Train a run; the calling thread waits for it."""
        with starting_processes():
            pool = ProcessPoolExecutor(
                1, mp_context=get_context("spawn"), initializer=_begin, initargs=(self._workers,)
            )
        with pool:
            with self._lock:
                if self._stopped:
                    return
                with starting_processes():
                    future = pool.submit(self._train, run)
                self._pools.add(pool)
            try:
                future.result()
            finally:
                with self._lock:
                    self._pools.discard(pool)

    def stop(self) -> None:
        """End all processes, and start no more."""
        with self._lock:
            self._stopped = True
            for pool in self._pools:
                for process in list((pool._processes or {}).values()):
                    process.terminate()


def _begin(workers: int) -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    if "OMP_NUM_THREADS" not in os.environ:
        import torch

        torch.set_num_threads(max(1, torch.get_num_threads() // workers))
