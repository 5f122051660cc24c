"""Host memory for tables: anonymous, shared by the processes of a node, or a file.

Replicas on one node hold the same rows: they map the same memory and share the work of
updating it, so that a node holds each table once, whatever its number of GPUs. The mapped
memory has no name in the file system and disappears with the last process, also by `kill -9`.
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
from modtok_cli.training.distributed.ranks import TIMEOUT, Ranks, gather_json, raise_together


@dataclass(frozen=True)
class NodePeers:
    """The processes that share memory: those of a node with the same shard.

    Attributes:
        peer, peers: index of this process, and number of peers including it.
        here: number of processes of this run on this node, of all shards.
        first: rank of the first peer, which allocates the memory.
        group: for `barrier`; None without other peers.
    """

    peer: int = 0
    peers: int = 1
    here: int = 1
    first: int = 0
    group: dist.ProcessGroup | None = None

    def barrier(self) -> None:
        """Wait for all peers. Call it from one thread per process at a time."""
        if self.group is not None:
            dist.all_reduce(torch.zeros(1), group=self.group)


def find_node_peers(ranks: Ranks) -> NodePeers:
    """Find the processes that share memory with this one. Collective: every rank calls it."""
    where = gather_json(ranks, [_node(), ranks.shard])
    groups: dict[tuple[str, int], list[int]] = {}
    for rank, (node, shard) in enumerate(where):
        groups.setdefault((node, shard), []).append(rank)
    found = NodePeers()
    for (node, shard), members in groups.items():
        # Creating a group is collective: all ranks create all groups.
        group = None
        if len(members) > 1:
            group = dist.new_group(members, timeout=TIMEOUT, backend="gloo")
        if [node, shard] == where[ranks.rank]:
            here = sum(other == node for other, _ in where)
            found = NodePeers(members.index(ranks.rank), len(members), here, members[0], group)
    return found


def _node() -> str:
    """An id of the node; processes with equal ids can map each other's memory."""
    parts = [platform.node()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)


class HostMemory:
    """Allocates tables.

    Without peers and directory this is anonymous memory, which the system commits page by
    page. With peers it is shared memory. With a directory it is a file there, which the system
    pages in and out, for tables larger than the memory.
    """

    def __init__(self, ranks: Ranks, peers: NodePeers, directory: Path | None = None) -> None:
        self._ranks, self._peers, self._directory = ranks, peers, directory

    def zeros(self, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """Zeros of that shape; peers get the same memory. Collective: every rank calls it.

        Raises:
            ModtokError: the system refuses; names the size.
        """
        size = prod(shape) * dtype.itemsize
        if not size:
            return torch.zeros(shape, dtype=dtype)
        opened, error = -1, None
        try:
            if self._directory is not None or self._peers.peers > 1:
                opened = self._make(size) if self._peers.peer == 0 else -1
        except OSError as caught:
            where = str(self._directory) if self._directory else None
            what = f"cannot allocate {size:,} bytes for rows ({caught.strerror})"
            error = ModtokError(what, where=where, remedy="free space, or use another directory")
        raise_together(self._ranks, error)
        told = gather_json(self._ranks, [os.getpid(), opened])
        pid, number = told[self._peers.first]
        try:
            if number >= 0 and self._peers.peer > 0:
                opened = os.open(f"/proc/{pid}/fd/{number}", os.O_RDWR)
            mapped = _map(opened, size)
        except OSError as caught:
            error = ModtokError(f"cannot map {size:,} bytes for rows ({caught.strerror})")
        raise_together(self._ranks, error)  # also: the first keeps its file open until here
        if opened >= 0:
            os.close(opened)
        return torch.frombuffer(mapped, dtype=dtype).view(shape)

    def _make(self, size: int) -> int:
        """An unnamed file of that size, in memory or in the directory, with space reserved."""
        if self._directory is None:
            opened = os.memfd_create("rows")
            os.ftruncate(opened, size)
            return opened
        self._directory.mkdir(parents=True, exist_ok=True)
        opened = _nameless(self._directory)
        try:
            os.posix_fallocate(opened, 0, size)  # a full disk would kill the process later
        except OSError:
            os.close(opened)
            raise
        return opened


def _nameless(directory: Path) -> int:
    try:
        return os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError:  # not every file system supports O_TMPFILE
        opened, path = tempfile.mkstemp(prefix=".rows-", dir=directory)
        Path(path).unlink()
        return opened


def _map(opened: int, size: int) -> mmap.mmap:
    if opened >= 0:
        return mmap.mmap(opened, size)
    # Counts as used only when it is touched.
    lazily = getattr(mmap, "MAP_NORESERVE", 0x4000)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | lazily)
