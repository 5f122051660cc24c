"""Host memory for tables: given as it is touched, shared by the processes of a node, or a file.

Replicas on one node hold the same rows: they map the same memory and share the work of
updating it, so that a node holds each table once, however many GPUs it has. What is mapped
has no name in the file system; it is gone with the last process, `kill -9` included.
"""

from __future__ import annotations

import mmap
import os
import platform
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path

import torch
import torch.distributed as dist

from modtok_cli.base.errors import ModtokError
from modtok_cli.pretrain.distributed.ranks import TIMEOUT, Ranks, gather_json, raise_together


@dataclass(frozen=True)
class Mates:
    """The processes that map one memory: those of a node that hold the same shard.

    Attributes:
        mate, mates: which one this is, of how many.
        here: processes of this run on this node, of all shards.
        first: rank of the first mate, the one that makes the memory.
        group: for `meet`; None if alone.
    """

    mate: int = 0
    mates: int = 1
    here: int = 1
    first: int = 0
    group: dist.ProcessGroup | None = None

    def meet(self) -> None:
        """Wait until all mates are here. For one thread of each at a time."""
        if self.group is not None:
            dist.all_reduce(torch.zeros(1), group=self.group)


def find_mates(ranks: Ranks) -> Mates:
    """Who shares memory with this process; every rank calls it."""
    where = gather_json(ranks, [_node(), ranks.shard])
    groups: dict[tuple[str, int], list[int]] = {}
    for rank, (node, shard) in enumerate(where):
        groups.setdefault((node, shard), []).append(rank)
    found = Mates()
    for (node, shard), members in groups.items():
        # Every rank has a part in making every group, its own or not.
        group = None
        if len(members) > 1:
            group = dist.new_group(members, timeout=TIMEOUT, backend="gloo")
        if [node, shard] == where[ranks.rank]:
            here = sum(other == node for other, _ in where)
            found = Mates(members.index(ranks.rank), len(members), here, members[0], group)
    return found


def _node() -> str:
    """Processes with the same answer can map each other's memory."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)


class HostMemory:
    """Makes zeros for tables.

    Alone and without a directory they are anonymous memory, which the system gives page by
    page as it is touched. With mates it is shared memory, with a directory a file there
    that the system reads and writes as needed, for tables larger than the memory.
    """

    def __init__(self, ranks: Ranks, mates: Mates, directory: Path | None = None) -> None:
        self._ranks, self._mates, self._directory = ranks, mates, directory

    def zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Zeros of that shape; every rank calls it, and mates get the same memory.

        Raises:
            ModtokError: the system refuses; says how much was asked for.
        """
        size = prod(shape) * dtype.itemsize
        if not size:
            return torch.zeros(shape, dtype=dtype)
        opened, error = -1, None
        try:
            if self._directory is not None or self._mates.mates > 1:
                opened = self._make(size) if self._mates.mate == 0 else -1
        except OSError as caught:
            where = str(self._directory) if self._directory else None
            what = f"cannot take {size:,} bytes for rows ({caught.strerror})"
            error = ModtokError(what, where=where, remedy="free space, or choose another place")
        raise_together(self._ranks, error)
        told = gather_json(self._ranks, [os.getpid(), opened])
        pid, number = told[self._mates.first]
        try:
            if number >= 0 and self._mates.mate > 0:
                opened = os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR)
            mapped = _map(opened, size)
        except OSError as caught:
            error = ModtokError(f"cannot map {size:,} bytes for rows ({caught.strerror})")
        raise_together(self._ranks, error)  # also: the first keeps its file open until here
        if opened >= 0:
            os.close(opened)
        return torch.frombuffer(mapped, dtype=dtype).view(shape)

    def _make(self, size: int) -> int:
        """A nameless file of that size, in memory or in the directory, its space set aside."""
        if self._directory is None:
            opened = os.memfd_create("rows")
            os.ftruncate(opened, size)
            return opened
        self._directory.mkdir(parents=True, exist_ok=True)
        opened = _nameless(self._directory)
        try:
            os.posix_fallocate(opened, 0, size)  # a full disk later on would kill the process
        except OSError:
            os.close(opened)
            raise
        return opened


def _nameless(directory: Path) -> int:
    try:
        return os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError:  # not every file system can; then a name for a moment
        opened, path = tempfile.mkstemp(prefix=".rows-", dir=directory)
        Path(path).unlink()
        return opened


def _map(opened: int, size: int) -> mmap.mmap:
    if opened >= 0:
        return mmap.mmap(opened, size)
    # Not counted against the memory until it is touched.
    lazily = getattr(mmap, "MAP_NORESERVE", 0x4000)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | lazily)
