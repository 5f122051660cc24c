"""What each rank reads of a checkpoint that other ranks wrote, and how long a save stops training.

Ranks are simulated, one after the other: what they send each other stays away. Prints a JSON object
a line.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.common import emit, parser_of

VOCABULARY, SAVES = 24_000, 5


class Counted:
    """A file or a slice of safetensors; `taken` are the bytes of what was taken of any."""

    taken = 0

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def get_slice(self, name: str) -> Counted:
        return Counted(self.inner.get_slice(name))

    def get_tensor(self, name: str) -> Any:
        return self._count(self.inner.get_tensor(name))

    def __getitem__(self, index: Any) -> Any:
        return self._count(self.inner[index])

    def _count(self, tensor: Any) -> Any:
        Counted.taken += tensor.numel() * tensor.element_size()
        return tensor


def main() -> None:
    parser_of(__doc__).parse_args()
    import torch

    from helpers.microbatches import optimizer_step
    from modtok_cli.model.architecture.families.llama import llama
    from modtok_cli.training import checkpoint
    from modtok_cli.training.checkpoint import read, saving
    from modtok_cli.training.checkpoint.checkpoint_files import shard_name, write_safetensors
    from modtok_cli.training.distributed.ranks import start_ranks
    from modtok_cli.training.model.model import MicroBatch, Model

    opened: Any = read.safe_open
    read.safe_open = lambda *words, **more: Counted(opened(*words, **more))

    def model_of(world: int, rank: int) -> Model:
        place = {"rank": rank, "replica": rank, "world": world, "replicas": world}
        return Model(llama(8, 512, 8, 1376), VOCABULARY, replace(start_ranks(), **place))

    for written in (1, 2, 4):
        with TemporaryDirectory() as scratch:
            for rank in range(written):
                path = Path(scratch) / shard_name(0, 1, rank, written)
                write_safetensors(path, dict(saving._own_rows(model_of(written, rank))))
            state = {"step": 1, "shards": 1, "parts": written}
            for world in (2, 4):
                taken = []
                for rank in range(world):
                    model, Counted.taken = model_of(world, rank), 0
                    checkpoint.load(Path(scratch), state, model)
                    taken.append(Counted.taken)
                sizes = {"most": max(taken), "all_ranks": sum(taken)}
                emit({"written_by": written, "read_by": world, **sizes})

    model, ids, stopped, size = model_of(1, 0), torch.arange(64), [], 0
    batch = [MicroBatch(ids.view(1, -1), ids, torch.arange(1000), torch.full((64,), 1 / 64))]
    with TemporaryDirectory() as scratch:
        saver = checkpoint.Checkpointer(Path(scratch), model.ranks)
        for step in range(SAVES):
            optimizer_step(model, batch, 1e-4)
            began = time.perf_counter()
            saver.save(model, step, {})
            stopped.append(round(time.perf_counter() - began, 3))
            optimizer_step(model, batch, 1e-4)
            saver.wait()
        size = sum(path.stat().st_size for path in Path(scratch).glob(f"*{SAVES - 1}/*"))
    emit({"bytes": size, "save_stops": median(stopped), "of": stopped})
