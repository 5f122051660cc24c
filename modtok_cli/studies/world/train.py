"""Train several small runs, in this process or in several."""

import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from threading import Lock

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.processes import die_with_parent
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.training.settings import RunSettings


def train_one(run: RunSettings, *, progress: Progress = SILENT) -> None:
    """Train or resume a run. torch is imported here: the parent of other processes needs none."""
    from modtok_cli.training.study import train_or_resume

    train_or_resume(run, progress=progress)


def train_runs(
    runs: Sequence[RunSettings],
    *,
    workers: int,
    progress: Progress = SILENT,
    train: Callable[..., object] = train_one,
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
        pool = ProcessPoolExecutor(
            1, mp_context=get_context("spawn"), initializer=_begin, initargs=(self._workers,)
        )
        with pool:
            with self._lock:
                if self._stopped:
                    return
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
