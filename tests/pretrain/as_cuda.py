"""Megatron's optimizer on a CPU, which it refuses: for tests on machines without a GPU.

Under `AsCuda` tensors that are asked for on "cuda" are made on the CPU, and tensors say that
they are of CUDA types. All arithmetic is as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from modtok_cli.pretrain import model
from modtok_cli.pretrain.megatron_adamw import MegatronAdamW

CPU = torch.device("cpu")


class AsCuda(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if "cuda" in str(kwargs.get("device", "")):
            kwargs["device"] = CPU
        result = func(*args, **kwargs)
        if func is torch.Tensor.type and len(args) == 1:
            return result.replace("torch.", "torch.cuda.", 1)
        return result


@contextmanager
def megatron_optimizer() -> Iterator[None]:
    """Inside, new models take Megatron's optimizer."""
    with pytest.MonkeyPatch.context() as patch, AsCuda():
        patch.setattr(model, "backbone_optimizer", MegatronAdamW)
        yield
