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
from modtok_cli.training.checkpoint.checkpoint_files import WEIGHTS_ONLY, shard_name
from modtok_cli.training.distributed.ranks import Ranks
from modtok_cli.training.model import megatron
from modtok_cli.training.model.model import Model
from modtok_cli.training.rows.offload import Rows
from modtok_cli.training.rows.table import RowTable

BACKBONE_PARTS = ("weight", "m", "v")
_PARTS = ("weight", "moment1", "moment2", "steps")
# Of rows in host memory: those that the next step is to see as they were before this step.
_LATE_PARTS = ("late.ids", "late.weight")
# Rows are read in blocks: loading takes little memory besides the table's own.
_BLOCK = 1 << 16


class JoinedRows:
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
        pieces: list[torch.Tensor] = []
        first = bisect_right(self._ends, start)
        for part in range(min(first, len(self._ends) - 1), len(self._ends)):
            before = self._ends[part - 1] if part else 0
            if before >= stop and pieces:
                break
            pieces.append(self._slices[part][max(0, start - before) : max(0, stop - before)])
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


class ShardFile:
    """One tensor-parallel shard of the backbone, in as many files as replicas wrote it.

    `get_slice` and `get_tensor` are those of `safetensors.safe_open`.
    """

    def __init__(self, files: Sequence[Any]) -> None:
        self._files = files

    def parts(self) -> list[ShardFile]:
        """The files one by one."""
        return [ShardFile([file]) for file in self._files]

    @property
    def names(self) -> list[str]:
        """Names of the tensors."""
        return list(self._files[0].keys())

    def get_slice(self, name: str) -> Any:
        """A tensor to be read by ranges of its rows."""
        if len(self._files) == 1:
            return self._files[0].get_slice(name)
        return JoinedRows([file.get_slice(name) for file in self._files])

    def get_tensor(self, name: str) -> torch.Tensor:
        """A whole tensor."""
        parts = [file.get_tensor(name) for file in self._files]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def open_shards(path: Path, state: Mapping[str, Any]) -> list[ShardFile]:
    """The shards of a checkpoint, in order."""
    shards, parts = int(state["shards"]), int(state["parts"])
    return [
        ShardFile(
            [
                safe_open(path / shard_name(shard, shards, part, parts), framework="pt")
                for part in range(parts)
            ]
        )
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
    """Fill `model` from a checkpoint that any number of ranks wrote."""
    if state.get(WEIGHTS_ONLY):
        raise ModtokError(
            "has weights only, no state of the optimizer",
            where=path,
            remedy=f"start a run from it: --init-from {path.parent.parent}",
        )
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
            where=path,
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


def table_tensors(model: Model) -> dict[str, torch.Tensor]:
    """This rank's rows by their names in a checkpoint, not copied; after `Model.drain`."""
    tensors = {}
    for name, table in model.tables.items():
        for part in _PARTS:
            tensors[f"{name}.{part}"] = getattr(table, part)
    if model.offloaded is not None:
        for name, late in model.offloaded.late.items():
            for part, tensor in zip(_LATE_PARTS, late, strict=True):
                tensors[f"{name}.{part}"] = tensor
    return tensors


def load_tables(model: Model, opened: list[Any]) -> None:
    """Fill the tables from the files of all ranks there were, in order of their row shards."""
    late: Rows = {}
    for name, table in model.tables.items():
        for part in _PARTS:
            slices = [file.get_slice(f"{name}.{part}") for file in opened]
            fill(getattr(table, part), slices, table)
        if f"{name}.{_LATE_PARTS[0]}" in opened[0].names:
            ids, weights = (
                torch.cat([file.get_tensor(f"{name}.{part}") for file in opened])
                for part in _LATE_PARTS
            )
            order = torch.argsort(ids)
            order = order[ids[order] % table.shards == table.shard]
            late[name] = (ids[order], weights[order])
    if model.offloaded is not None:
        model.offloaded.resume(late)


def fill(target: torch.Tensor, shards: list[Any], table: RowTable) -> None:
    """This shard's rows, from rows dealt round-robin to any number of shards.

    `shards` give rows by slices and their shape by `get_shape`.

    Example: rows 0 … 4 dealt to two, [0, 2, 4] and [1, 3]; of three, shard 1 has [1, 4].
    """
    old, new = len(shards), table.shards
    for shard, rows in enumerate(shards):
        there = [(table.size - shard + old - 1) // old, *target.shape[1:]]
        if list(rows.get_shape()) != there:
            raise RuntimeError(f"a table of {rows.get_shape()} in the place of {there}")
    for start in range(0, table.size, _BLOCK):
        stop = min(start + _BLOCK, table.size)
        block = torch.empty(stop - start, *target.shape[1:], dtype=target.dtype)
        for shard, rows in enumerate(shards):
            if old == new and shard != table.shard:
                continue
            first, last = _count_below(start, shard, old), _count_below(stop, shard, old)
            block[first * old + shard - start :: old] = rows[first:last]
        first, last = _count_below(start, table.shard, new), _count_below(stop, table.shard, new)
        target[first:last] = block[first * new + table.shard - start :: new]


def _count_below(row: int, shard: int, shards: int) -> int:
    """How many rows below `row` a shard has."""
    return (row - shard + shards - 1) // shards
