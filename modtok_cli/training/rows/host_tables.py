"""Tables in host memory: anonymous memory, or files."""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.text.parallel import cores
from modtok_cli.training.distributed.ranks import Ranks, raise_together, ranks_here
from modtok_cli.training.rows.copies import Warn, copies_for
from modtok_cli.training.rows.offload import Hook, OffloadedRows
from modtok_cli.training.rows.table import AdamW, RowTable

# Of a rank on a GPU. Memory is no faster for more, and other cores launch kernels and read text.
_MOST_THREADS = 6


@dataclass(frozen=True)
class Offload:
    """How rows are kept in host memory.

    Attributes:
        delay: steps by which rows lag, 0 or 1 (see `offload`).
        moments: dtype of the moments, float32 or bfloat16.
        directory: store tables as files there; None for memory.
        warn: receives warnings for the user.
        hook: see `OffloadedRows`.
    """

    delay: int = 1
    moments: torch.dtype = torch.float32
    directory: Path | None = None
    warn: Warn = print
    hook: Hook | None = None

    def table(self, ranks: Ranks, size: int, width: int) -> RowTable:
        """This rank's rows of a table, zeros. Collective: every rank calls it."""
        threads = None
        if ranks.device.type != "cpu":
            threads = max(1, min(_MOST_THREADS, cores() // ranks_here(ranks)))
        table = RowTable(
            size,
            width,
            shard=ranks.row_shard,
            shards=ranks.row_shards,
            moments=self.moments,
            zeros=partial(host_zeros, ranks, self.directory),
            threads=threads,
        )
        if self.directory is None:  # commit the memory, each part by the thread that will use it
            table.touch()
        return table

    def rows(
        self, ranks: Ranks, tables: dict[str, RowTable], dtype: torch.dtype, adamw: AdamW
    ) -> OffloadedRows:
        """The object that moves the rows of these tables."""
        copies = copies_for(ranks.device, self.warn)
        return OffloadedRows(tables, dtype, adamw, copies, delay=self.delay, hook=self.hook)


def host_zeros(
    ranks: Ranks, directory: Path | None, shape: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    """Zeros of that shape. Collective: every rank calls it, each with its own shape.

    Without a directory this is anonymous memory, which the system commits page by page. With one
    it is a file there, which the system pages in and out, for tables larger than the memory.
    """
    size = prod(shape) * dtype.itemsize
    mapped, error = None, None
    try:
        mapped = _map(directory, size) if size else None
    except OSError as caught:
        where = str(directory) if directory else None
        what = f"cannot allocate {size:,} bytes for rows ({caught.strerror})"
        error = ModtokError(what, where=where, remedy="free space, or use another directory")
    raise_together(ranks, error)
    if mapped is None:
        return torch.zeros(shape, dtype=dtype)
    return torch.frombuffer(mapped, dtype=dtype).view(shape)


def _map(directory: Path | None, size: int) -> mmap.mmap:
    if directory is None:
        # Counts as used only when it is touched.
        lazily = getattr(mmap, "MAP_NORESERVE", 0x4000)
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | lazily)
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=directory) as file:
        os.posix_fallocate(file.fileno(), 0, size)  # a full disk would kill the process later
        return mmap.mmap(file.fileno(), size)
