"""Tables in host memory: anonymous memory, or files."""

from __future__ import annotations

import mmap
import os
import tempfile
from dataclasses import dataclass
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
        self._memory = HostMemory(ranks, offload.directory)
        self._threads: int | None = None
        if ranks.device.type != "cpu":
            self._threads = max(1, min(_MOST_THREADS, cores() // ranks_here(ranks)))

    def table(self, size: int, width: int) -> RowTable:
        """This rank's rows of a table, zeros. Collective: every rank calls it."""
        table = RowTable(
            size,
            width,
            shard=self._ranks.row_shard,
            shards=self._ranks.row_shards,
            moments=self._offload.moments,
            zeros=self._memory.zeros,
            threads=self._threads,
        )
        if self._offload.touch and self._offload.directory is None:
            table.touch()
        return table

    def rows(self, tables: dict[str, RowTable], dtype: torch.dtype, adamw: AdamW) -> OffloadedRows:
        """The object that moves the rows of these tables."""
        copies = copies_for(self._ranks.device, self._offload.warn)
        delay, hook = self._offload.delay, self._offload.hook
        return OffloadedRows(tables, dtype, adamw, copies, delay=delay, hook=hook)


class HostMemory:
    """Allocates tables.

    Without a directory this is anonymous memory, which the system commits page by page. With one
    it is a file there, which the system pages in and out, for tables larger than the memory.
    """

    def __init__(self, ranks: Ranks, directory: Path | None = None) -> None:
        self._ranks, self._directory = ranks, directory

    def zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Zeros of that shape. Collective: every rank calls it, each with its own shape."""
        size = prod(shape) * dtype.itemsize
        mapped, error = None, None
        try:
            mapped = self._map(size) if size else None
        except OSError as caught:
            where = str(self._directory) if self._directory else None
            what = f"cannot allocate {size:,} bytes for rows ({caught.strerror})"
            error = ModtokError(what, where=where, remedy="free space, or use another directory")
        raise_together(self._ranks, error)
        if mapped is None:
            return torch.zeros(shape, dtype=dtype)
        return torch.frombuffer(mapped, dtype=dtype).view(shape)

    def _map(self, size: int) -> mmap.mmap:
        if self._directory is None:
            # Counts as used only when it is touched.
            lazily = getattr(mmap, "MAP_NORESERVE", 0x4000)
            return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | lazily)
        self._directory.mkdir(parents=True, exist_ok=True)
        opened = _nameless(self._directory)
        try:
            os.posix_fallocate(opened, 0, size)  # a full disk would kill the process later
            return mmap.mmap(opened, size)
        finally:
            os.close(opened)


def _nameless(directory: Path) -> int:
    try:
        return os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError:  # not every file system supports O_TMPFILE
        opened, path = tempfile.mkstemp(prefix=".rows-", dir=directory)
        Path(path).unlink()
        return opened
