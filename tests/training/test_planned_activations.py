"""Planned memory of a step on a GPU against that of fake tensors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from modtok_cli.architectures.sizes import SIZES
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model import megatron
from modtok_cli.training.model.execution import Execution
from modtok_cli.training.recipe import PRESETS

# A preset has 52; the rest of the time goes into making them.
LAYERS = 6


class FusedNorm(torch.autograd.Function):
    """What the kernel of a GPU keeps: input, weight, and a scale of each token in float32."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight, x.new_empty((*x.shape[:-1], 1), dtype=torch.float32))
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        x, weight, _ = ctx.saved_tensors
        return torch.empty_like(x), torch.empty_like(weight)


class Peak(TorchDispatchMode):
    """The most bytes that tensors made in it took at a time; without `others`, from before it."""

    def __init__(self, others: Iterable[torch.Tensor]) -> None:
        super().__init__()
        self.others = {tensor.untyped_storage()._cdata for tensor in others}
        self.alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.size = self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            storage = tensor.untyped_storage() if isinstance(tensor, torch.Tensor) else None
            if storage is not None and storage._cdata not in self.others:
                self.alive[storage._cdata] = StorageWeakRef(storage), storage.nbytes()
                self.size += storage.nbytes()
        if self.size > self.most:  # perhaps: some may be gone, or counted twice
            self.alive = {key: one for key, one in self.alive.items() if not one[0].expired()}
            self.size = sum(size for _, size in self.alive.values())
            self.most = max(self.most, self.size)
        return result


@pytest.fixture
def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def fused(x: torch.Tensor, shape: object, weight: torch.Tensor, eps: float) -> torch.Tensor:
        result: torch.Tensor = FusedNorm.apply(x, weight)  # type: ignore[no-untyped-call]
        return result

    monkeypatch.setattr(torch.nn.functional, "rms_norm", fused)
    swiglu = import_module("megatron.core.fusions.fused_bias_swiglu")
    monkeypatch.setattr(swiglu, "swiglu", lambda x: x.new_empty(*x.shape[:-1], x.shape[-1] // 2))
    monkeypatch.setattr(swiglu, "swiglu_back", lambda gradient, x: torch.empty_like(x))
    # Fake parameters cannot be converted: they are made in the dtype of the backbone.
    monkeypatch.setattr(torch.nn.Module, "to", lambda self, **_: self)
    torch.set_default_dtype(torch.bfloat16)
    start_ranks()
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    ("preset", "recompute", "starts"),
    [
        *product(("tiny", "30b"), [0, LAYERS], [None]),
        ("1b", 0, [0, 9, 4000]),
        ("1b", 1, [0, 9]),
    ],
)
def test_plan_agrees_with_fake_tensors(
    preset: str, recompute: int, starts: list[int] | None, as_on_a_gpu: None
) -> None:
    options, shape = PRESETS[preset], replace(SIZES[preset], layers=LAYERS)
    length, sequences = options["seq_length"], options["micro_batch"]
    backbone = megatron.build_backbone(
        shape, shards=1, device=torch.device("cpu"), dtype=torch.bfloat16, seed=0,
        recompute=recompute, masked=starts is not None, execution=Execution(fused=True),
    )  # fmt: skip
    size = (length, sequences, shape.hidden_size)
    weights = list(backbone.parameters.values())
    with Peak([*weights, *(weight.main_grad for weight in weights)]) as peak:
        bounds = None if starts is None else torch.tensor([*starts, length * sequences]).int()
        result = backbone(torch.empty(size, dtype=torch.bfloat16, requires_grad=True), bounds)
        # The loss has the gradient of its input, in float32, and returns it converted.
        gradients = [torch.empty(size, dtype=torch.float32).to(torch.bfloat16)]
        with backbone.accumulating(more=False):
            result.backward(gradients.pop())
    planned = shape.activation_bytes(sequences, length, 2, recompute=recompute, fused=True)
    planned += shape.working_bytes(sequences * length, 2)
    assert planned == pytest.approx(peak.most, rel=0.1)
