"""What rows in host memory need of a node, and whether it is there."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.memory import available

if TYPE_CHECKING:
    import torch


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
    # Two buffers each way, a quarter larger than needed. Down comes a process's share of the
    # rows, in float32 when replicas have summed it.
    down = (4 if replicas > 1 else dtype.itemsize) * here / node
    buffers = int(2.5 * tables * union / shards * width * (dtype.itemsize + down) * node)
    part = f" × {here}/{shards} shards" if here < shards else ""
    words = (
        f"{tables} × {size:,} rows × {width:,} × (4 + 2 × {moments.itemsize}) bytes{part} = "
        f"{whole / 2**30:.1f} GiB, and {buffers / 2**30:.1f} GiB of buffers"
    )
    return HostNeed(whole, buffers, words)


def check_host(need: HostNeed, *, moments: torch.dtype, directory: Path | None) -> None:
    """Is there room on this node? To be asked before the tables are made.

    Raises:
        ModtokError: there is not; says what is needed and why, what there is, and what helps.
    """
    free = available()
    wanted = need.buffers + (0 if directory else need.tables)
    smaller = []
    if moments.itemsize == 4:
        smaller.append("--offload-moments bfloat16 takes a third less")
    if directory is None:
        smaller.append("--offload-file DIR keeps the tables on a disk")
    remedy = ", ".join([*smaller, "fewer --langs"])
    if free is not None and wanted > free:
        raise ModtokError(
            f"the vocabulary needs {wanted / 2**30:.1f} GiB of this machine's memory "
            f"({need.words}), {free / 2**30:.1f} GiB are free",
            where="--offload",
            remedy=remedy,
        )
    if directory is not None:
        parent = directory
        while not parent.exists():
            parent = parent.parent
        if not parent.is_dir():
            raise UsageError(
                "is no directory", where=str(parent), remedy="name one with --offload-file"
            )
        room = shutil.disk_usage(parent).free
        if need.tables > room:
            raise ModtokError(
                f"the vocabulary needs {need.tables / 2**30:.1f} GiB of disk ({need.words}), "
                f"{room / 2**30:.1f} GiB are free",
                where=str(directory),
                remedy=remedy,
            )
