"""Memory of a model's device, checked before it is allocated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.memory import check_memory

if TYPE_CHECKING:
    from modtok_cli.inference.model import SlicedModel


def check_device_memory(need: int, device: torch.device, work: str, remedy: str) -> None:
    """Check `need` bytes against the free memory of the device or, on a CPU, of the machine.

    Raises:
        ModtokError: they are not free; names both numbers.
    """
    if device.type != "cuda":
        check_memory(need, work, remedy)
        return
    free = torch.cuda.mem_get_info(device)[0]
    if need > free:
        raise ModtokError(
            f"{work} needs about {need / 2**30:.1f} GiB on the GPU, "
            f"{free / 2**30:.1f} GiB are free",
            remedy=remedy,
        )


def check_batch(model: SlicedModel, sequences: int, tokens: int) -> None:
    """Check a batch to be scored, of `sequences` × `tokens`.

    Raises:
        ModtokError: it does not fit.
    """
    check_device_memory(
        model.scoring_bytes(sequences, tokens),
        model.device,
        f"a batch of {sequences:,} sequences of {tokens:,} tokens",
        "lower --batch-size",
    )
