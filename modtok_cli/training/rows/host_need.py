"""Host memory that offloaded rows need, and whether the node has it."""

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
    """Host memory that a node needs, in bytes.

    Attributes:
        tables: weights, moments and step counts of the rows that ranks of the node own.
        buffers: staging buffers for uploads and downloads.
        words: the calculation of `tables` and `buffers`.
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
    ranks: int,
    node: int,
) -> HostNeed:
    """Calculate the need of a node.

    Args:
        size, width, tables: rows of T, row size, and number of tables.
        moments, dtype: dtypes of the stored moments, and of rows on the device.
        union: active rows of a step, per table.
        ranks, node: number of processes, and of those on the node.
    """
    row = width * (4 + 2 * moments.itemsize) + 4
    whole = tables * size * row * node // ranks
    # Two buffers per direction, a quarter larger than needed: rows up, float32 gradients down.
    buffers = int(2.5 * tables * union * width * (dtype.itemsize + 4) * node / ranks)
    part = f" × {node}/{ranks} ranks" if node < ranks else ""
    words = (
        f"{tables} × {size:,} rows × {width:,} × (4 + 2 × {moments.itemsize}) bytes{part} = "
        f"{whole / 2**30:.1f} GiB, and {buffers / 2**30:.1f} GiB of buffers"
    )
    return HostNeed(whole, buffers, words)


def check_host(need: HostNeed, *, moments: torch.dtype, directory: Path | None) -> None:
    """Check, before tables are allocated, that they fit this node.

    Raises:
        ModtokError: they do not; names need, calculation, free space and remedies.
    """
    free = available()
    wanted = need.buffers + (0 if directory else need.tables)
    smaller = []
    if moments.itemsize == 4:
        smaller.append("use --offload-moments bfloat16 (a third less)")
    if directory is None:
        smaller.append("store tables on a disk with --offload-file DIR")
    remedy = ", ".join([*smaller, "or use fewer --langs"])
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
                "is not a directory", where=str(parent), remedy="choose one with --offload-file"
            )
        room = shutil.disk_usage(parent).free
        if need.tables > room:
            raise ModtokError(
                f"the vocabulary needs {need.tables / 2**30:.1f} GiB of disk ({need.words}), "
                f"{room / 2**30:.1f} GiB are free",
                where=str(directory),
                remedy=remedy,
            )
