"""Train several small runs, in this process or in several."""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.processes import die_with_parent
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.training.settings import Settings
from modtok_cli.training.study import train_or_resume


def train_runs(runs: Sequence[Settings], *, workers: int, progress: Progress = SILENT) -> None:
    """Train runs, resume them, or leave those that are finished.

    Args:
        workers: runs that are trained at the same time, each on its share of the cores.

    Raises:
        UsageError: a run was trained with other settings.
        ModtokError: a run failed; the others of that moment are stopped, and resume.
    """
    if workers == 1 or len(runs) < 2:
        for number, run in enumerate(runs, 1):
            progress.note(f"{run.runs}/{run.name}: run {number} of {len(runs)}")
            train_or_resume(run, progress=progress)
        return
    workers = min(workers, len(runs))
    pool = ProcessPoolExecutor(
        workers,
        mp_context=get_context("spawn"),
        initializer=_begin,
        initargs=(workers,),
        max_tasks_per_child=1,  # a run leaves process groups and memory behind
    )
    try:
        with progress.task("training", len(runs), "runs") as task:
            futures = {pool.submit(train_or_resume, run): run for run in runs}
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
        for process in list((pool._processes or {}).values()):
            process.terminate()
        pool.shutdown(cancel_futures=True)


def _begin(workers: int) -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    if "OMP_NUM_THREADS" not in os.environ:
        import torch

        torch.set_num_threads(max(1, torch.get_num_threads() // workers))
