"""A rank that trains runs one after the other: `python -m helpers.rank_of_runs SETTINGS.json`.

The file has a list of objects, the options of each run. RANK, WORLD_SIZE and MASTER_ADDR are set.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import orjson
import torch

from modtok_cli.training.loop import finish, pretrain
from modtok_cli.training.settings import RunSettings


def train(runs: Path) -> None:
    """Train the runs of a file."""
    for options in orjson.loads(runs.read_bytes()):
        pretrain(RunSettings(**options))


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms("MODTOK_GPU_CHECK" in os.environ, warn_only=True)
    train(Path(sys.argv[1]))
    finish()
