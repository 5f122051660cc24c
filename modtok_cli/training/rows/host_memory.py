"""Host memory for tables: anonymous, or a file."""

from __future__ import annotations

import mmap
import os
import tempfile
from math import prod
from pathlib import Path

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.training.distributed.ranks import Ranks, raise_together


class HostMemory:
    """Allocates tables.

    Without a directory this is anonymous memory, which the system commits page by page. With one
    it is a file there, which the system pages in and out, for tables larger than the memory.
    """

    def __init__(self, ranks: Ranks, directory: Path | None = None) -> None:
        self._ranks, self._directory = ranks, directory

    def zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Zeros of that shape. Collective: every rank calls it, each with its own shape.

        Raises:
            ModtokError: the system refuses on this rank or another; names the size.
        """
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
