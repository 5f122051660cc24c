"""What each rank reads of a checkpoint that other ranks wrote.

Ranks are simulated, one after the other: what they send each other stays away. Prints a JSON object
a line.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.common import emit

VOCABULARY = 24_000


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
    from modtok_cli.architectures.families.llama import llama
    from modtok_cli.training import checkpoint
    from modtok_cli.training.checkpoint import reading, saving
    from modtok_cli.training.checkpoint.checkpoint_files import shard_name, write_safetensors
    from modtok_cli.training.distributed.ranks import start_ranks
    from modtok_cli.training.model.model import Model

    opened: Any = reading.safe_open
    reading.safe_open = lambda *words, **more: Counted(opened(*words, **more))

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
