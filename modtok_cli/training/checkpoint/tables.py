"""Tables in a checkpoint: what is written of them, and reading it on any number of ranks.

Rows are read in blocks, so that loading takes little memory besides the table's own.
"""

from __future__ import annotations

from typing import Any

import torch

from modtok_cli.training.model.model import Model
from modtok_cli.training.rows.offload import Rows
from modtok_cli.training.rows.table import RowTable

_PARTS = ("weight", "moment1", "moment2", "steps")
# Of rows in host memory: those that the next step is to see as they were before this step.
_LATE_PARTS = ("late.ids", "late.weight")
_BLOCK = 1 << 16


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
    """Fill the tables from the files of all ranks there were, in order of their row shards.

    Raises:
        RuntimeError, SafetensorError: they are of another model.
    """
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
