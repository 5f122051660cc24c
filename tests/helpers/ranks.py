"""Processes of a group on this machine."""

from __future__ import annotations

import os
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

from helpers.python_processes import Python
from modtok_cli.base.processes import MESSAGES
from modtok_cli.training.distributed.launch import free_port


def rank_variables(world: int) -> list[dict[str, str]]:
    """The environment of each rank of a group on CPUs, as torchrun gives it."""
    plain = {name: value for name, value in os.environ.items() if name != MESSAGES}
    plain |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(world)}
    plain |= {"OMP_NUM_THREADS": "1", "MODTOK_DEVICE": "cpu"}
    return [{**plain, "RANK": str(rank)} for rank in range(world)]


def small_buckets(parameters: int) -> None:
    """Exchange gradients in buckets of so few parameters, where that overlaps with compute."""
    from modtok_cli.training.distributed.megatron_core import core

    parts = core().distributed
    parts.DistributedDataParallelConfig = partial(
        parts.DistributedDataParallelConfig, bucket_size=parameters
    )


def start_ranks(world: int, *words: object, **options: Any) -> list[Python]:
    """Start Python with these words as each rank of a group."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return [Python(words, env=variables, **pipes) for variables in rank_variables(world)]


def run_ranks(world: int, module: str, *words: object) -> None:
    """Run a module of `tests` as each rank of a group, and wait."""
    for rank in start_ranks(world, "-m", module, *words, cwd=Path(__file__).parents[1]):
        _, error = rank.communicate(timeout=900)
        if rank.returncode:
            raise RuntimeError(error.decode()[-3000:])
