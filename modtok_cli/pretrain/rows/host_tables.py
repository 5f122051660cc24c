"""Making tables in host memory, and what moves their rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from modtok_cli.pretrain.distributed.ranks import Ranks
from modtok_cli.pretrain.rows.copies import Warn, copies_for
from modtok_cli.pretrain.rows.host_memory import HostMemory, Mates, find_mates
from modtok_cli.pretrain.rows.offload import Hook, OffloadedRows
from modtok_cli.pretrain.rows.table import AdamW, RowTable
from modtok_cli.pretrain.rows.thread_team import ThreadTeam
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


class TableMaker:
    """Makes the tables of a rank in host memory, and what moves their rows."""

    def __init__(self, ranks: Ranks, offload: Offload) -> None:
        self._ranks, self._offload = ranks, offload
        self.mates: Mates = find_mates(ranks)
        self._crew = ThreadTeam(_threads(ranks, self.mates))
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
