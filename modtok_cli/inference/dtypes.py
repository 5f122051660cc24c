"""Dtypes of weights in files, and whether weights fit them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from modtok_cli.base.errors import UsageError

if TYPE_CHECKING:
    from torch import Tensor

DTYPES = ("float32", "bfloat16", "float16")


def check_range(tensors: Mapping[str, Tensor], dtype: str) -> None:
    """Refuse weights that would become infinite in `dtype`.

    Raises:
        UsageError: names the first such tensor.
    """
    import torch

    largest = torch.finfo(getattr(torch, dtype)).max
    for name, tensor in tensors.items():
        if tensor.numel() and float(tensor.detach().abs().max()) > largest:
            raise UsageError(
                f"'{name}' has values beyond {largest:g}, which {dtype} cannot represent",
                where="--dtype",
                remedy="use bfloat16 or float32",
            )
