"""Mistakes that a rehearsal must find: each is planted by replacing a function of modtok."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.gpu.rehearsal.combinations import Combination


def _weights_on_the_host() -> None:
    """A tensor of the host in the sum of the loss."""
    from modtok_cli.training.model import model

    right = model.sliced_cross_entropy

    def wrong(hidden: Any, rows: Any, columns: Any, weights: Any, **options: Any) -> Any:
        return right(hidden, rows, columns, weights.cpu(), **options)

    model.sliced_cross_entropy = wrong


def _numpy_of_the_gpu() -> None:
    from modtok_cli.training.rows.table import RowTable

    right = RowTable.update

    def wrong(table: Any, ids: Any, *rest: Any) -> None:
        ids.numpy()
        right(table, ids, *rest)

    RowTable.update = wrong  # type: ignore[method-assign]


def _ids_on_the_gpu() -> None:
    """Ids of the device for a table in host memory."""
    from modtok_cli.training.rows.table import RowTable

    right = RowTable.gather_into

    def wrong(table: Any, ids: Any, out: Any) -> None:
        right(table, ids.cuda(), out)

    RowTable.gather_into = wrong  # type: ignore[method-assign]


def _sum_on_the_host() -> None:
    """A tensor of the host in a collective."""
    from modtok_cli.training import metrics

    right = metrics.summed
    metrics.summed = lambda values, group: right(values.cpu(), group)


def _context_of_another() -> None:
    """A thread of rank 1 that uses GPU 0, where each thread begins."""
    import torch

    from modtok_cli.training.rows.offload import OffloadedRows

    right = OffloadedRows._fetch

    def wrong(rows: Any, *rest: Any) -> Any:
        rows._worker.do(lambda: torch.cuda.set_device(0))
        return right(rows, *rest)

    OffloadedRows._fetch = wrong  # type: ignore[method-assign]


def _rows_not_waited_for() -> None:
    """Compute uses offloaded rows before the stream that uploads them has finished."""
    from modtok_cli.training.rows.copies import CudaCopies

    CudaCopies.arrive = lambda copies, upload: upload.tensor  # type: ignore[method-assign]


def _gradients_not_waited_for() -> None:
    """The host reads gradients before they have arrived in its memory."""
    import torch

    from modtok_cli.training.rows.copies import Transfer

    # The flag comes last on the same stream: waiting for it would be waiting for the gradients.
    Transfer.wait = lambda download: (  # type: ignore[method-assign]
        torch.ones_like(download.tensor) if download.tensor.dtype == torch.bool else download.tensor
    )


# The mistake, the run in which it is made, and a part of the message that must say so.
MISTAKES: dict[str, tuple[Callable[[], None], Combination, str]] = {
    "weights on the host": (_weights_on_the_host, Combination(1, 1), "two devices"),
    "numpy of the GPU": (_numpy_of_the_gpu, Combination(1, 1), "to numpy"),
    "ids on the GPU": (_ids_on_the_gpu, Combination(1, 1, "delay 1"), "to numpy"),
    "rows not waited for": (
        _rows_not_waited_for,
        Combination(1, 1, "delay 1"),
        "does not wait for the stream",
    ),
    "gradients not waited for": (
        _gradients_not_waited_for,
        Combination(1, 1, "delay 1"),
        "nobody waited for",
    ),
    "sum on the host": (_sum_on_the_host, Combination(2, 1), "no tensors of the host"),
    "context on GPU 0": (_context_of_another, Combination(2, 1, "delay 1"), "opened a context"),
}
