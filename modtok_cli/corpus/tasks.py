"""Stages of a build or count as datatrove executors."""

from pathlib import Path

from datatrove.executor.base import DistributedEnvVars, PipelineExecutor
from datatrove.executor.slurm import SlurmPipelineExecutor

from modtok_cli.corpus.plan import Stage


class Tasks(PipelineExecutor):
    """Tasks of a stage for processes that run them one by one; finished ones are skipped.

    datatrove's own local executor waits for ever if a process of its pool is killed, as does its
    executor for Ray.
    """

    def __init__(self, stage: Stage, logs: Path) -> None:
        super().__init__(list(stage.blocks), str(logs / stage.name))
        self.tasks = stage.tasks

    def run(self) -> None:
        """Run all tasks in this process."""
        for rank in self.get_incomplete_ranks():
            self.run_rank(rank)

    def run_rank(self, rank: int) -> None:
        """Run one task."""
        self._run_for_rank(rank, 1)  # only local rank 0 writes to the terminal

    @property
    def world_size(self) -> int:
        """Number of tasks."""
        return self.tasks

    def get_distributed_env(self, node_rank: int = -1) -> DistributedEnvVars:
        """What blocks may know of the machine: nothing."""
        names = ("cpus_per_task", "mem_per_cpu", "gpus_on_node")
        unknown = {f"datatrove_{name}": "-1" for name in names}
        return {"datatrove_node_ips": "localhost", "datatrove_executor": "LOCAL", **unknown}


class Array(SlurmPipelineExecutor):
    """Tasks of a stage on Slurm without the job that sums up statistics.

    It would wait for ever once a task has failed.
    """

    def launch_merge_stats(self) -> None:
        """Nothing."""
