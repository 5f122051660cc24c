"""Either optimizer for the backbone, on either device.

Megatron's refuses a CPU: under `AsCuda` tensors that are asked for on "cuda" are made on the
CPU, and tensors say that they are of CUDA types. All arithmetic is as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from modtok_cli.training.distributed.ranks import Ranks, pick_device
from modtok_cli.training.model import megatron, model
from modtok_cli.training.model.optimizer import MegatronAdamW, TorchAdamW
from modtok_cli.training.rows.table import AdamW

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
    mode = AsCuda() if pick_device().type == "cpu" else nullcontext()
    with pytest.MonkeyPatch.context() as patch, mode:
        patch.setattr(model, "backbone_optimizer", MegatronAdamW)
        yield


@contextmanager
def torch_optimizer() -> Iterator[None]:
    """Inside, new models take torch's."""

    def make(
        backbone: megatron.Backbone, adamw: AdamW, ranks: Ranks, *, distributed: bool
    ) -> TorchAdamW:
        assert not distributed
        return TorchAdamW(backbone.parameters, adamw)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "backbone_optimizer", make)
        yield
