"""Memory of the device, checked before it is allocated."""

from __future__ import annotations

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.memory import check_memory


def check_room(need: int, device: torch.device, work: str, remedy: str) -> None:
    """Refuse work that needs more than the free memory of the device or, on a CPU, the machine.

    Raises:
        ModtokError: `need` bytes are not free; names both numbers.
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
