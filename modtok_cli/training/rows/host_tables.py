"""Create tables in host memory."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

import torch

from modtok_cli.text.parallel import cores
from modtok_cli.training.distributed.ranks import Ranks, gather_json
from modtok_cli.training.rows.copies import Warn, copies_for
from modtok_cli.training.rows.host_memory import HostMemory
from modtok_cli.training.rows.offload import Hook, OffloadedRows
from modtok_cli.training.rows.table import AdamW, RowTable
from modtok_cli.training.rows.thread_team import ThreadTeam


@dataclass(frozen=True)
class Offload:
    """Settings of offloaded rows.

    Attributes:
        delay: steps by which rows lag, 0 or 1 (see `offload`).
        moments: dtype of the moments, float32 or bfloat16.
        directory: store tables as files there; None for memory.
        touch: commit the memory at once, each part by the thread that will use it.
        warn: receives warnings for the user.
        hook: see `OffloadedRows`.
    """

    delay: int = 1
    moments: torch.dtype = torch.float32
    directory: Path | None = None
    touch: bool = True
    warn: Warn = print
    hook: Hook | None = None


class TableMaker:
    """Creates the tables of a rank in host memory."""

    def __init__(self, ranks: Ranks, offload: Offload) -> None:
        self._ranks, self._offload = ranks, offload
        self._team = ThreadTeam(_threads(ranks))
        self._memory = HostMemory(ranks, offload.directory)

    def table(self, size: int, width: int, seed: int, std: float = 0.02) -> RowTable:
        """This rank's rows of a table, normal(0, std). Collective: every rank calls it."""
        table = RowTable(
            size,
            width,
            shard=self._ranks.row_shard,
            shards=self._ranks.row_shards,
            moments=self._offload.moments,
            zeros=self._memory.zeros,
            team=self._team,
        )
        if self._offload.touch and self._offload.directory is None:
            table.touch()
        table.initialize(seed, std)
        return table

    def rows(self, tables: dict[str, RowTable], dtype: torch.dtype, adamw: AdamW) -> OffloadedRows:
        """The object that moves the rows of these tables."""
        return OffloadedRows(
            tables,
            dtype,
            adamw,
            copies_for(self._ranks.device, self._offload.warn),
            delay=self._offload.delay,
            hook=self._offload.hook,
        )


def _threads(ranks: Ranks) -> int:
    """Number of threads for rows: a share of the node's cores; on a CPU, torch's threads."""
    if ranks.device.type == "cpu":
        return torch.get_num_threads()
    here = gather_json(ranks, platform.node()).count(platform.node())
    return max(1, cores() // here)
