"""Switches of the backbone: defaults, and on a GPU the same losses.

What two processes do with them: `test_parallel`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from helpers.microbatches import microbatch
from modtok_cli.architectures.families.llama import llama
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.training.config import Config
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model.execution import Execution, in_one_order
from modtok_cli.training.model.model import Model
from modtok_cli.training.resolve import Origin, resolve
from modtok_cli.training.settings import RunSettings
from modtok_cli.training.step import optimizer_step

ON = Execution(True, True, True, True)
OFF = Execution()
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU; make gpu-check")


def on_gpus(**options: Any) -> Config:
    return resolve(RunSettings(model="7b", **options), gpu=True)


def test_transformer_engine_is_chosen_only_where_it_is_asked_for() -> None:
    assert on_gpus(transformer_engine=True).switches(1).transformer_engine
    with pytest.raises(UsageError, match=r"parallelism.transformer_engine: needs a GPU"):
        resolve(RunSettings(transformer_engine=True), gpu=False)


def test_defaults_on_gpus() -> None:
    assert on_gpus(gpus=8, tp=2).switches(4) == ON
    # What has no effect is off.
    alone = replace(OFF, fused=True)
    chosen = on_gpus(attention_kernel="cudnn").switches(1)
    assert chosen == replace(alone, attention="cudnn")
    assert on_gpus().switches(1) == alone
    two = replace(alone, overlap_grad_reduce=True)
    assert on_gpus(gpus=2, distributed_optimizer=False).switches(2) == two
    assert on_gpus(gpus=2, tp=2).switches(1) == replace(alone, sequence_parallel=True)
    assert on_gpus(gpus=2, tp=2, seq_length=33).switches(1) == alone


def test_a_frozen_backbone_has_no_exchange_of_gradients() -> None:
    source = Origin("7b", on_gpus().shape)

    def growing(**options: Any) -> Config:
        settings = RunSettings(init_from=Path("old"), train="rows", gpus=2, **options)
        return resolve(settings, gpu=True, source=source)

    assert not growing().distributed_optimizer
    assert growing().switches(2) == replace(OFF, fused=True)


def losses(execution: Execution) -> list[float]:
    """Losses of ten steps on the GPU; one text, so that they fall."""
    ranks = start_ranks()
    shape = llama(2, 256, 64, 512)
    model = Model(shape, 512, ranks, seed=3, dtype=torch.bfloat16, execution=execution)
    ids = torch.arange(512)
    text = torch.randint(0, 512, (4, 129), generator=torch.Generator().manual_seed(1))
    batch = microbatch(text[:, :-1].numpy(), text[:, 1:].numpy(), ids.numpy(), ranks)
    return [float(optimizer_step(model, [batch, batch], 1e-3)[0][0].mean()) for _ in range(10)]


@gpu
@pytest.mark.parametrize(("name", "tolerance"), [("fused", 2e-2), ("overlap_grad_reduce", 1e-3)])
def test_losses_on_a_gpu_do_not_depend_on_it(name: str, tolerance: float) -> None:
    plain, fused = losses(OFF), losses(replace(OFF, **{name: True}))
    assert fused == pytest.approx(plain, rel=tolerance)
    assert plain[-1] < plain[0] - 0.5


def test_one_order_or_the_name_of_the_kernel() -> None:
    gpu = torch.device("cuda")

    def work() -> None:
        assert torch.are_deterministic_algorithms_enabled()
        torch.zeros(3).put_(torch.tensor([1]), torch.ones(1))  # has none, also on a CPU

    with pytest.raises(ModtokError) as caught, in_one_order(gpu):
        work()
    text = "--deterministic: the kernel put_ adds in no fixed order; leave it out"
    assert str(caught.value) == text
    with pytest.raises(RuntimeError, match="another"), in_one_order(gpu):
        raise RuntimeError("another")
    assert not torch.are_deterministic_algorithms_enabled()
    with in_one_order(torch.device("cpu")):
        assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("other", [{"attention_kernel": "cudnn"}, {"transformer_engine": True}])
def test_kernels_of_no_fixed_order_are_refused(other: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"--deterministic: .* adds in no fixed order"):
        on_gpus(deterministic=True, **other)
