"""A rank that trains runs one after the other: `python -m helpers.rank_of_runs SETTINGS.json`.

The file has a list of objects, the options of each run. RANK, WORLD_SIZE and MASTER_ADDR are set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import torch

from helpers.ranks import run_ranks
from modtok_cli.training.loop import finish, pretrain
from modtok_cli.training.settings import RunSettings


def train_on(world: int, runs: Sequence[dict[str, Any]], file: Path) -> None:
    """Train runs by that number of processes, each a rank of all; by this one if it is one."""
    file.write_bytes(orjson.dumps(runs))
    if world == 1:
        train(file)
    else:
        run_ranks(world, "helpers.rank_of_runs", file)


def train(file: Path) -> None:
    """Train the runs of a file."""
    for options in orjson.loads(file.read_bytes()):
        pretrain(RunSettings(**options))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms("MODTOK_GPU_CHECK" in os.environ, warn_only=True)
    train(Path(sys.argv[1]))
    finish()
