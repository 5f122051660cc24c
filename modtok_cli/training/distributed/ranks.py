"""The processes of a run: ranks, devices and collectives.

Ranks are ordered as in Megatron, tensor-parallel neighbours first. With tensor-parallel size
t, rank r is shard r mod t of replica r div t.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from importlib.metadata import version
from threading import Lock
from typing import Any

import orjson
import torch
import torch.distributed as dist

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.processes import join_slurm_step
from modtok_cli.training.distributed.megatron_core import start_groups, stop_groups

# The first step compiles kernels and unpacks text; later, ranks are seconds apart.
TIMEOUT = timedelta(minutes=60)


@dataclass(frozen=True)
class Ranks:
    """Position of this process in the run.

    Attributes:
        rank, world: rank and number of all processes.
        shard, shards: tensor-parallel rank and size.
        replica, replicas: data-parallel rank and size.
        shard_group: the ranks of this replica, None if one; replica_group: the ranks with
            this shard, None if one; host_group: the same for tensors of the host.
        hosts: all ranks, for tensors of the host; None: the default group.
    """

    rank: int
    world: int
    shard: int
    shards: int
    replica: int
    replicas: int
    device: torch.device
    shard_group: dist.ProcessGroup | None
    replica_group: dist.ProcessGroup | None
    host_group: dist.ProcessGroup | None = None
    hosts: dist.ProcessGroup | None = None

    @property
    def first(self) -> bool:
        """Whether this is rank 0, which reports and writes for all."""
        return self.rank == 0

    @property
    def row_shard(self) -> int:
        """Index of this rank's share of embedding rows; rows g with g mod row_shards."""
        return self.replica * self.shards + self.shard

    @property
    def row_shards(self) -> int:
        """Number of shares of embedding rows: every rank has one."""
        return self.shards * self.replicas


def start_ranks(shards: int = 1) -> Ranks:
    """Join the process group given by torchrun's environment variables; alone without them.

    Uses NCCL with GPUs, else gloo. May be called repeatedly in one process.

    Raises:
        UsageError: `shards` does not divide the number of processes, or the variables are
            invalid.
        ModtokError: the other processes cannot be reached.
    """
    rank, world = _rank_and_world()
    if world % shards:
        raise UsageError(
            f"--tp {shards} needs a multiple of {shards} processes; this run has {world}"
        )
    if shards > 1:
        # Megatron overlaps collectives of shards with products in the order in which it issues
        # them; a device keeps it with one queue. Read when it is opened.
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "1")
    device = pick_device()
    _join("nccl" if device.type == "cuda" else "gloo", rank, world)
    shard_group, replica_group, host_group = start_groups(shards, device)
    return Ranks(
        rank=rank,
        world=world,
        shard=rank % shards,
        shards=shards,
        replica=rank // shards,
        replicas=world // shards,
        device=device,
        shard_group=shard_group if shards > 1 else None,
        replica_group=replica_group if world > shards else None,
        host_group=host_group if world > shards else None,
        hosts=_hosts() if world > 1 and device.type == "cuda" else None,
    )


@cache
def _hosts() -> Any:
    """A group of all ranks over gloo; a collective of NCCL would wait for the device."""
    return dist.new_group(backend="gloo", timeout=TIMEOUT, group_desc="ALL_RANKS_GLOO")


def start_equals() -> Ranks:
    """Join the process group as `start_ranks`, over gloo, to exchange results only.

    Each process is a replica of its own, and none needs Megatron. The device of `Ranks` is for
    messages, the CPU; see `pick_device`.
    """
    rank, world = _rank_and_world()
    _join("gloo", rank, world)
    return Ranks(rank, world, 0, 1, rank, world, torch.device("cpu"), None, None)


def _join(backend: str, rank: int, world: int) -> None:
    """Join the process group, unless this process has joined one."""
    if dist.is_initialized():
        return
    store: Any = dist.HashStore() if world == 1 else None  # type: ignore[attr-defined]
    hook = sys.excepthook
    try:
        dist.init_process_group(backend, store=store, rank=rank, world_size=world, timeout=TIMEOUT)
    except (ValueError, RuntimeError) as error:  # of torch, about address or port
        raise ModtokError(
            f"rank {rank} of {world} cannot reach the others ({str(error).splitlines()[0]})",
            remedy="set the same MASTER_ADDR and MASTER_PORT for all, as torchrun does",
        ) from error
    finally:
        if world == 1:  # torch prefixes every traceback with the rank
            sys.excepthook = hook


def _rank_and_world() -> tuple[int, int]:
    """(rank, world size) by the environment; (0, 1) without it."""
    values = {"RANK": os.environ.get("RANK", "0"), "WORLD_SIZE": os.environ.get("WORLD_SIZE", "1")}
    for name, value in values.items():
        if not re.fullmatch("[0-9]{1,6}", value):
            raise UsageError(
                f"expected a number, got '{value}'",
                where=name,
                remedy="start ranks with torchrun, srun or --gpus",
            )
    rank, world = int(values["RANK"]), int(values["WORLD_SIZE"])
    if rank >= world:
        raise UsageError(f"expected a rank below {world}, got {rank}", where="RANK")
    return rank, world


def has_gpu() -> bool:
    """Whether this process has a GPU, which is not opened; not with MODTOK_DEVICE=cpu."""
    join_slurm_step()
    return os.environ.get("MODTOK_DEVICE") != "cpu" and torch.cuda.is_available()


def pick_device() -> torch.device:
    """The GPU of this process, opened; else the CPU."""
    if not has_gpu():
        return torch.device("cpu")
    index = int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
    torch.cuda.set_device(index)
    return torch.device("cuda", index)


_reached = 0
# Events of a GPU's stream, each before a collective that was entered; by time.
_marks: deque[Any] = deque()
_marking = Lock()


def collectives_reached() -> int:
    """How many collectives of modtok's own this process has come to; see `watchdog`.

    On a GPU the device: the host runs ahead of it. A device that has failed reaches no more.
    """
    global _reached
    with _marking, suppress(RuntimeError):
        while _marks and _marks[0].query():
            _marks.popleft()
            _reached += 1
    return _reached


def entering() -> None:
    """Count a collective."""
    global _reached
    cuda: Any = torch.cuda
    if cuda.is_initialized():
        mark = cuda.Event()
        mark.record()
        _marks.append(mark)
        collectives_reached()
    else:
        _reached += 1


def stop_ranks() -> None:
    """Destroy the process groups."""
    if dist.is_initialized():
        stop_groups()
        _hosts.cache_clear()
        dist.destroy_process_group()


def summed(values: torch.Tensor, group: dist.ProcessGroup | None) -> torch.Tensor:
    """Sum `values` over a group, in place."""
    if group is not None:
        entering()
        dist.all_reduce(values, group=group)
    return values


def gather_json(ranks: Ranks, item: Any) -> list[Any]:
    """All-gather an item per rank, in order of ranks; JSON, not pickle."""
    if ranks.world == 1:
        return [item]
    entering()
    mine = torch.frombuffer(bytearray(orjson.dumps(item)), dtype=torch.uint8).to(ranks.device)
    size = torch.tensor([len(mine)], device=ranks.device)
    sizes = [torch.zeros_like(size) for _ in range(ranks.world)]
    dist.all_gather(sizes, size)
    longest = int(torch.cat(sizes).max())
    padded = torch.zeros(longest, dtype=torch.uint8, device=ranks.device)
    padded[: len(mine)] = mine
    parts = [torch.zeros_like(padded) for _ in range(ranks.world)]
    dist.all_gather(parts, padded)
    return [
        orjson.loads(part[: int(n)].cpu().numpy().tobytes())
        for part, n in zip(parts, sizes, strict=True)
    ]


def ranks_here(ranks: Ranks) -> int:
    """Number of ranks on this machine. Collective."""
    return gather_json(ranks, platform.node()).count(platform.node())


def raise_together(ranks: Ranks, error: ModtokError | None) -> None:
    """Fail on all ranks if one failed, so that none waits for it."""
    errors = gather_json(ranks, str(error) if error else None)
    if error is not None:
        raise error
    for rank, other in enumerate(errors):
        if other is not None:
            raise ModtokError(f"rank {rank} failed: {other}")


def versions() -> Mapping[str, str]:
    """Versions of the software that the results depend on."""
    from modtok_cli.base.version import __version__

    return {
        "modtok": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "megatron-core": version("megatron-core"),
        "numpy": version("numpy"),
    }
