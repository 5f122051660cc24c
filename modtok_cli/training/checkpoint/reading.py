"""Read a checkpoint on any number of ranks, whatever ranks wrote it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from modtok_cli.base.errors import ModtokError
from modtok_cli.training.checkpoint.files import shard_name
from modtok_cli.training.checkpoint.tables import load_tables
from modtok_cli.training.distributed.ranks import Ranks
from modtok_cli.training.model import megatron
from modtok_cli.training.model.model import Model

BACKBONE_PARTS = ("weight", "m", "v")


class Rows:
    """A tensor of a shard whose rows are stored in several files, one range after the other."""

    def __init__(self, slices: Sequence[Any]) -> None:
        self._slices = slices
        shapes = [part.get_shape() for part in slices]
        self._ends = list(accumulate(shape[0] for shape in shapes))
        self._shape = [self._ends[-1], *shapes[0][1:]]

    def get_shape(self) -> list[int]:
        """Shape of the whole tensor."""
        return self._shape

    def __getitem__(self, rows: slice) -> torch.Tensor:
        start, stop, _ = rows.indices(self._shape[0])
        found: list[torch.Tensor] = []
        first = bisect_right(self._ends, start)
        for part in range(min(first, len(self._ends) - 1), len(self._ends)):
            before = self._ends[part - 1] if part else 0
            if before >= stop and found:
                break
            found.append(self._slices[part][max(0, start - before) : max(0, stop - before)])
        return found[0] if len(found) == 1 else torch.cat(found)


class ShardFile:
    """One tensor-parallel shard of the backbone, in as many files as replicas wrote it.

    `get_slice` and `get_tensor` are those of `safetensors.safe_open`.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._files: list[Any] = [safe_open(path, framework="pt") for path in paths]

    def parts(self) -> list[ShardFile]:
        """The files one by one."""
        found = []
        for file in self._files:
            one = ShardFile(())
            one._files = [file]
            found.append(one)
        return found

    @property
    def names(self) -> list[str]:
        """Names of the tensors."""
        found: list[str] = self._files[0].keys()
        return found

    def get_slice(self, name: str) -> Any:
        """A tensor to be read by ranges of its rows."""
        if len(self._files) == 1:
            return self._files[0].get_slice(name)
        return Rows([file.get_slice(name) for file in self._files])

    def get_tensor(self, name: str) -> torch.Tensor:
        """A whole tensor."""
        parts = [file.get_tensor(name) for file in self._files]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def open_shards(path: Path, state: Mapping[str, Any]) -> list[ShardFile]:
    """The shards of a checkpoint, in order.

    Raises:
        OSError, SafetensorError: a file cannot be read.
    """
    shards, parts = int(state["shards"]), int(state["parts"])
    return [
        ShardFile([path / shard_name(shard, shards, part, parts) for part in range(parts)])
        for shard in range(shards)
    ]


def row_files(shards: Sequence[ShardFile]) -> list[ShardFile]:
    """The files of a checkpoint in the order of tables: of n files, file f has rows f, f + n, …

    Example: of two tensor-parallel shards that two replicas wrote, row 0 is in part 0 of shard 0,
    row 1 in part 0 of shard 1, rows 2 and 3 in the parts 1.
    """
    return [
        file for part in zip(*(shard.parts() for shard in shards), strict=True) for file in part
    ]


def load(path: Path, state: Mapping[str, Any], model: Model) -> None:
    """Fill `model` from a checkpoint that any number of ranks wrote.

    Raises:
        ModtokError: it is of another model.
    """
    try:
        opened = open_shards(path, state)
        with torch.no_grad():
            for name, parameter in model.backbone.parameters.items():
                parts = {}
                partition = megatron.partition(parameter)
                as_written = partition is None or len(opened) == model.ranks.shards
                own = opened[0 if partition is None else model.ranks.shard :][:1]
                for part in BACKBONE_PARTS:
                    shards = [
                        file.get_tensor(f"backbone.{part}/{name}")
                        for file in (own if as_written else opened)
                    ]
                    parts[part] = (
                        shards[0] if as_written else reshard(shards, partition, model.ranks)
                    )
                model.optimizer.load(name, parts)
            model.optimizer.set_steps(int(state["step"]))
            load_tables(model, row_files(opened))
    except (SafetensorError, RuntimeError) as error:
        raise ModtokError(
            f"is of another model ({error})",
            where=str(path),
            remedy=f"restore {path.parent.parent / 'config.json'}, or start another run",
        ) from error


def reshard(
    shards: list[torch.Tensor], partition: tuple[int, int] | None, ranks: Ranks
) -> torch.Tensor:
    """This rank's part of a parameter, from the parts of all shards that were written."""
    if partition is None:
        return shards[0]
    dim, parts = partition
    if len(shards) == ranks.shards:
        return shards[ranks.shard]
    pieces = [shard.chunk(parts, dim) for shard in shards]
    mine = []
    for part in range(parts):
        whole = torch.cat([one[part] for one in pieces], dim)
        mine.append(whole.chunk(ranks.shards, dim)[ranks.shard])
    return torch.cat(mine, dim)
