"""Bytes on TCP connections of gradients and of tensor parallelism in a step, by the formulas.

    python -m benchmarks wire

Two and four processes, float32, one microbatch. Forward and backward pass of a tensor-parallel
shard exchange what the formula of docs/scale.md says, with four bytes a number instead of two;
gradients without the distributed optimizer are all-reduced: 8 P / n · (R - 1) / R. Counted is what
peers have acknowledged (`TCP_INFO`), headers of gloo included. gloo has no reduce-scatter, so
sequence parallelism and the distributed optimizer cannot be counted in this way.
Prints a JSON object a line.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.common import emit
from benchmarks.speed.sharded_rows import SLOTS, acknowledged, batches

LAYERS, WIDTH, LENGTH, SIZE = 4, 256, 64, 2000
# (processes, tensor-parallel size)
WAYS = ((2, 1), (2, 2), (4, 1), (4, 2), (4, 4))


def measure(shards: int) -> dict[str, Any]:
    """Bytes of this rank: on the wire and by the formulas."""
    import torch

    from modtok_cli.architectures.families.llama import llama
    from modtok_cli.training.distributed.ranks import gather_json, start_ranks
    from modtok_cli.training.model.model import Model

    torch.set_num_threads(1)
    ranks = start_ranks(shards)
    model = Model(llama(LAYERS, WIDTH, 32, 704), SIZE, ranks, seed=1)
    batch = batches(torch, ranks, 1, LENGTH, SIZE)[0]
    active = model.activate([batch])
    marks = []

    def mark() -> None:
        gather_json(ranks, None)
        time.sleep(0.3)
        marks.append(acknowledged())
        gather_json(ranks, None)

    mark()
    mark()  # between the first two: what a mark itself sends
    with model.backbone.accumulating(more=False):
        model.loss(batch, active)[0].backward()
    mark()
    model.backbone.finish_gradients()
    mark()
    own = marks[1] - marks[0]
    passes, sync = (marks[n] - marks[n - 1] - own for n in (2, 3))
    n, replicas, tokens = shards, ranks.replicas, 2 * LENGTH
    held = sum(p.numel() for p in model.backbone.parameters.values())
    # All-reduces of hidden states: four a layer and one of the embeddings; of their gradient in
    # the loss, and three numbers a token.
    numbers = tokens * (WIDTH * (4 * LAYERS + 2) + 3)
    return {
        "tensor": passes,
        "tensor_formula": 4 * numbers * 2 * (n - 1) // n,
        "gradients": sync,
        "gradients_formula": 4 * held * 2 * (replicas - 1) // replicas,
    }


def launch(world: int, shards: int) -> list[dict[str, Any]]:
    """What every rank found."""
    with socket.socket() as listener, TemporaryDirectory() as out:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        listener.close()
        ranks = []
        for rank in range(world):
            group = {"RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_PORT": str(port)}
            place = {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1", "MODTOK_DEVICE": "cpu"}
            words = [sys.executable, "-m", "benchmarks", "wire", str(shards), f"{out}/{rank}"]
            ranks.append(subprocess.Popen(words, env={**os.environ, **group, **place}))
        statuses = [rank.wait() for rank in ranks]
        if any(statuses):
            raise SystemExit(1)
        return [json.loads(Path(out, str(rank)).read_text()) for rank in range(world)]


def main() -> int:
    if len(sys.argv) > 2:
        Path(sys.argv[2]).write_text(json.dumps(measure(int(sys.argv[1]))))
        return 0
    assert SLOTS >= 4
    for world, shards in WAYS:
        found = launch(world, shards)
        row: dict[str, Any] = {"what": "wire", "processes": world, "tp": shards}
        for name in ("tensor", "gradients"):
            planned = found[0][f"{name}_formula"]
            row[f"{name}_bytes"] = [one[name] for one in found]
            row[f"{name}_formula"] = planned
            if planned:
                row[f"{name}_ratio"] = round(sum(row[f"{name}_bytes"]) / world / planned, 4)
        emit(row)
    return 0
