"""Tables in host memory: what they need, whether it is there, and making them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.memory import available
from modtok_cli.pretrain.copies import Warn, copies_for
from modtok_cli.pretrain.crew import Crew
from modtok_cli.pretrain.hostmemory import HostMemory, Mates, find_mates
from modtok_cli.pretrain.offload import Hook, OffloadedRows
from modtok_cli.pretrain.ranks import Ranks
from modtok_cli.pretrain.rows import AdamW, RowTable
from modtok_cli.text.parallel import cores


@dataclass(frozen=True)
class Offload:
    """How rows are kept in host memory.

    Attributes:
        delay: steps by which rows lag, 0 or 1 (see `offload`).
        moments: how moments are stored, float32 or bfloat16.
        directory: where the tables lie as files; None for memory.
        touch: take the memory at once, each part by the thread that will work on it.
        warn: told what the user should know.
        hook: see `OffloadedRows`.
    """

    delay: int = 1
    moments: torch.dtype = torch.float32
    directory: Path | None = None
    touch: bool = True
    warn: Warn = print
    hook: Hook | None = None


@dataclass(frozen=True)
class HostNeed:
    """What a node's host memory has to hold, in bytes, and the reckoning in words.

    Attributes:
        tables: weights, moments and counts of all rows of the shards on the node.
        buffers: staging for rows on their way up and gradients on their way down.
        words: how `tables` and `buffers` come about.
    """

    tables: int
    buffers: int
    words: str


def host_need(
    size: int,
    width: int,
    tables: int,
    *,
    moments: torch.dtype,
    union: float,
    dtype: torch.dtype,
    shards: int,
    replicas: int,
    node: int,
) -> HostNeed:
    """Reckon the need of a node.

    Args:
        size, width, tables: rows of T, numbers in a row, and how many tables.
        moments, dtype: stored moments; rows on the device.
        union: rows that are active in a step, per table.
        shards, replicas, node: of the model, of the run, processes on the node.
    """
    row = width * (4 + 2 * moments.itemsize) + 4
    here = min(shards, node)
    whole = tables * size * row * here // shards
    down = 4 if replicas > 1 else dtype.itemsize
    buffers = int(2.5 * tables * union / shards * width * (dtype.itemsize + down)) * node
    part = f" × {here}/{shards} shards" if here < shards else ""
    words = (
        f"{tables} × {size:,} rows × {width:,} × (4 + 2 × {moments.itemsize}) bytes{part} = "
        f"{whole / 2**30:.1f} GiB, and {buffers / 2**30:.1f} GiB of buffers"
    )
    return HostNeed(whole, buffers, words)


def check_host(need: HostNeed, offload: Offload) -> None:
    """Is there room on this node? To be asked before the tables are made.

    Raises:
        ModtokError: there is not; says what is needed and why, what there is, and what helps.
    """
    free = available()
    wanted = need.buffers + (0 if offload.directory else need.tables)
    smaller = []
    if offload.moments == torch.float32:
        smaller.append("--offload-moments bfloat16 takes a third less")
    if offload.directory is None:
        smaller.append("--offload-file DIR keeps the tables on a disk")
    remedy = ", ".join([*smaller, "fewer --langs"])
    if free is not None and wanted > free:
        raise ModtokError(
            f"the vocabulary needs {wanted / 2**30:.1f} GiB of this machine's memory "
            f"({need.words}), {free / 2**30:.1f} GiB are free",
            where="--offload",
            remedy=remedy,
        )
    if offload.directory is not None:
        parent = offload.directory
        while not parent.exists():
            parent = parent.parent
        room = shutil.disk_usage(parent).free
        if need.tables > room:
            raise ModtokError(
                f"the vocabulary needs {need.tables / 2**30:.1f} GiB of disk ({need.words}), "
                f"{room / 2**30:.1f} GiB are free",
                where=str(offload.directory),
                remedy=remedy,
            )


class TableMaker:
    """Makes the tables of a rank in host memory, and what moves their rows."""

    def __init__(self, ranks: Ranks, offload: Offload) -> None:
        self._ranks, self._offload = ranks, offload
        self.mates: Mates = find_mates(ranks)
        self._crew = Crew(_threads(ranks, self.mates))
        self._memory = HostMemory(ranks, self.mates, offload.directory)

    def table(self, size: int, width: int, seed: int) -> RowTable:
        """A shard of a table with its first weights; every rank calls it."""
        mates = self.mates
        table = RowTable(
            size,
            width,
            shard=self._ranks.shard,
            shards=self._ranks.shards,
            moments=self._offload.moments,
            zeros=self._memory.zeros,
            crew=self._crew,
            mate=mates.mate,
            mates=mates.mates,
        )
        if self._offload.touch and self._offload.directory is None:
            table.touch()
        mates.meet()
        if mates.mate == 0:
            table.initialize(seed)
        mates.meet()
        return table

    def rows(self, tables: dict[str, RowTable], dtype: torch.dtype, adamw: AdamW) -> OffloadedRows:
        """What moves the rows of these tables."""
        return OffloadedRows(
            tables,
            dtype,
            adamw,
            copies_for(self._ranks.device, self._offload.warn),
            delay=self._offload.delay,
            mates=self.mates,
            hook=self._offload.hook,
        )


def _threads(ranks: Ranks, mates: Mates) -> int:
    """Threads of this process for rows: its share of the node, or of what compute has."""
    if ranks.device.type == "cpu":
        return torch.get_num_threads()
    return max(1, cores() // mates.here)


__all__ = ["HostNeed", "Offload", "TableMaker", "check_host", "host_need"]
