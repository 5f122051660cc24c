"""Stages of a build or count as datatrove executors."""

from pathlib import Path

from datatrove.executor import LocalPipelineExecutor, SlurmPipelineExecutor

from modtok_cli.corpus.build_plan import BuildStage


class Tasks(LocalPipelineExecutor):
    """Tasks of a stage for processes that run them one by one; finished ones are skipped.

    Its own pool waits for ever if a process is killed, as does datatrove's executor for Ray.
    """

    def __init__(self, stage: BuildStage, logs: Path) -> None:
        super().__init__(list(stage.blocks), stage.tasks, logging_dir=str(logs / stage.name))

    def run_rank(self, rank: int) -> None:
        """Run one task."""
        self._run_for_rank(rank, 1)  # only local rank 0 writes to the terminal


class Array(SlurmPipelineExecutor):
    """Tasks of a stage on Slurm without the job that sums up statistics.

    It would wait for ever once a task has failed.
    """

    def launch_merge_stats(self) -> None:
        """Nothing."""
