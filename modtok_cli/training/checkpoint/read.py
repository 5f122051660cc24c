"""Read a checkpoint on any number of ranks, whatever ranks wrote it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import gcd
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from modtok_cli.base.errors import ModtokError
from modtok_cli.training.checkpoint.checkpoint_files import WEIGHTS_ONLY, shard_name
from modtok_cli.training.distributed.megatron_core import partition
from modtok_cli.training.distributed.ranks import Ranks, summed
from modtok_cli.training.model.model import Model
from modtok_cli.training.rows.offload import Rows
from modtok_cli.training.rows.table import RowTable

BACKBONE_PARTS = ("weight", "m", "v")
_PARTS = ("weight", "moment1", "moment2", "steps")
# Of rows in host memory: rows that the next step is to see as they were before this step.
_LATE_PARTS = ("late.ids", "late.weight")
# Rows are read in blocks: loading takes little memory besides the table's own.
_BLOCK = 1 << 16


class JoinedRows:
    """A tensor of a shard whose rows are stored in several files, one range after the other.

    Files are mapped into memory: only what is used of a slice is read.
    """

    def __init__(self, slices: Sequence[Any]) -> None:
        self._slices = slices
        shapes = [part.get_shape() for part in slices]
        self._ends = list(accumulate(shape[0] for shape in shapes))
        self.shape: list[int] = [self._ends[-1], *shapes[0][1:]]

    def __getitem__(self, index: slice | tuple[slice, ...]) -> torch.Tensor:
        rows, *columns = index if isinstance(index, tuple) else (index,)
        if len(self._slices) == 1:
            whole: torch.Tensor = self._slices[0][(rows, *columns)]
            return whole
        start, stop, _ = rows.indices(self.shape[0])
        pieces: list[torch.Tensor] = []
        first = bisect_right(self._ends, start)
        for part in range(min(first, len(self._ends) - 1), len(self._ends)):
            before = self._ends[part - 1] if part else 0
            if before >= stop and pieces:
                break
            place = slice(max(0, start - before), max(0, stop - before))
            pieces.append(self._slices[part][(place, *columns)])
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


class ShardFile:
    """One tensor-parallel shard of the backbone, in as many files as replicas wrote it."""

    def __init__(self, files: Sequence[Any]) -> None:
        self._files = files

    def parts(self) -> list[ShardFile]:
        """The files one by one."""
        return [ShardFile([file]) for file in self._files]

    @property
    def names(self) -> list[str]:
        """Names of the tensors."""
        return list(self._files[0].keys())

    def get_slice(self, name: str) -> JoinedRows:
        """A tensor to be read by ranges of its rows."""
        return JoinedRows([file.get_slice(name) for file in self._files])

    def get_tensor(self, name: str) -> torch.Tensor:
        """A whole tensor."""
        return self.get_slice(name)[:]


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
    """Fill `model` from a checkpoint that any number of ranks wrote. Collective.

    A rank reads the rows of the tables that it owns, and the rows of the backbone that it would
    write; replicas send each other the rest.
    """
    if state.get(WEIGHTS_ONLY):
        raise ModtokError(
            "has weights only, no state of the optimizer",
            where=path,
            remedy=f"start a run from it: --init-from {path.parent.parent}",
        )
    try:
        opened = open_shards(path, state)
        with torch.no_grad():
            for name in model.backbone.parameters:
                parts = {
                    part: own_part(
                        model, name, [file.get_slice(f"backbone.{part}/{name}") for file in opened]
                    )
                    for part in BACKBONE_PARTS
                }
                model.optimizer.load(name, parts)
            model.optimizer.set_steps(int(state["step"]))
            load_tables(model, row_files(opened))
    except (SafetensorError, RuntimeError) as error:
        raise ModtokError(
            f"is of another model ({error})",
            where=path,
            remedy=f"restore {path.parent.parent / 'config.json'}, or start another run",
        ) from error


def own_part(
    model: Model, name: str, shards: Sequence[JoinedRows] | Sequence[torch.Tensor]
) -> torch.Tensor:
    """This rank's part of a parameter, from the parts of all shards that were written. Collective.

    The tensor is on the device, or maybe in a file that is mapped into memory.
    """
    parameter, ranks = model.backbone.parameters[name], model.ranks
    own = rows_of(len(parameter), ranks)
    rows = _read(parameter, shards, ranks, own)
    if ranks.replicas == 1:
        return rows
    whole = torch.zeros(parameter.shape, device=ranks.device)
    whole[own] = rows.to(ranks.device)
    # As integers: sums with zeros keep every bit, the sign of a zero as well.
    summed(whole.view(torch.int32), ranks.replica_group)
    return whole


def rows_of(rows: int, ranks: Ranks) -> slice:
    """The rows of a tensor of the backbone that this replica writes."""
    first, last = (rows * part // ranks.replicas for part in (ranks.replica, ranks.replica + 1))
    return slice(first, last)


def _read(
    parameter: torch.nn.Parameter, shards: Sequence[Any], ranks: Ranks, rows: slice
) -> torch.Tensor:
    """Rows of this rank's part of a parameter, from the parts of all shards that were written."""
    divided = partition(parameter)
    dim, parts = divided or (0, 1)
    shape = list(parameter.shape)
    if divided is not None:
        shape[dim] = shape[dim] * ranks.shards // len(shards)
    for shard in shards:
        if list(shard.shape) != shape:
            raise RuntimeError(f"a tensor of {list(shard.shape)} in the place of {shape}")
    if divided is None:
        taken: torch.Tensor = shards[0][rows]
        return taken
    # Each shard has a part of each of the parts; so has this rank.
    size = shape[dim] // parts
    first, last = (size * len(shards) * n // ranks.shards for n in (ranks.shard, ranks.shard + 1))
    pieces, before = [shards[0][:0] if dim == 0 else shards[0][rows, :0]], 0
    for part in range(parts):
        for number, shard in enumerate(shards):
            start, stop = (min(max(n - number * size, 0), size) for n in (first, last))
            place = slice(part * size + start, part * size + stop)
            if dim:
                pieces.append(shard[rows, place])
                continue
            ends = (min(max(n - before, 0), stop - start) for n in (rows.start, rows.stop))
            pieces.append(shard[slice(*(place.start + n for n in ends))])
            before += stop - start
    return torch.cat(pieces, dim)


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


def load_tables(model: Model, opened: Sequence[ShardFile]) -> None:
    """Fill the tables from the files of all ranks there were, in order of their row shards."""
    late: Rows = {}
    for name, table in model.tables.items():
        for part in _PARTS:
            fill(getattr(table, part), [file.get_slice(f"{name}.{part}") for file in opened], table)
        if f"{name}.{_LATE_PARTS[0]}" in opened[0].names:
            found = []
            for number in _places(len(opened), table):
                ids, weights = (opened[number].get_tensor(f"{name}.{part}") for part in _LATE_PARTS)
                own = ids % table.shards == table.shard
                found.append((ids[own], weights[own]))
            ids, weights = (torch.cat(parts) for parts in zip(*found, strict=True))
            order = torch.argsort(ids)
            late[name] = (ids[order], weights[order])
    if model.offloaded is not None:
        model.offloaded.resume(late)


def fill(target: torch.Tensor, shards: Sequence[JoinedRows], table: RowTable) -> None:
    """This shard's rows, from rows dealt round-robin to any number of shards."""
    old = len(shards)
    for shard, rows in enumerate(shards):
        there = [(table.size - shard + old - 1) // old, *target.shape[1:]]
        if rows.shape != there:
            raise RuntimeError(f"a table of {rows.shape} in the place of {there}")
    for shard, (theirs, here) in _places(old, table).items():
        values, own = shards[shard][theirs], target[here]
        for start in range(0, len(own), _BLOCK):
            own[start : start + _BLOCK] = values[start : start + _BLOCK]


def _places(old: int, table: RowTable) -> dict[int, tuple[slice, slice]]:
    """Of `old` shards that have rows of this one: where those are there, and where here.

    Example: rows 0 … 4 dealt to two, [0, 2, 4] and [1, 3]; of three, shard 1 has [1, 4]: number 2
    of the first as its 1, and number 0 of the second as its 0.
    """
    new, common = table.shards, gcd(old, table.shards)
    places = {}
    for shard in range(table.shard % common, old, common):
        first = next(n for n in range(new) if (shard + n * old) % new == table.shard)
        here = (shard + first * old) // new
        places[shard] = slice(first, None, new // common), slice(here, None, old // common)
    return places
