"""Switches of the backbone: defaults, refusals, and on a GPU the same losses.

What two processes do with them: `test_parallel`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from modtok_cli.architectures.families.llama import llama
from modtok_cli.base.errors import UsageError
from modtok_cli.training import settings as declared
from modtok_cli.training.config import Config, resolve
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model import megatron
from modtok_cli.training.model.execution import Execution, has_kernels
from modtok_cli.training.model.model import MicroBatch, Model
from modtok_cli.training.settings import RunSettings
from modtok_cli.training.step import optimizer_step

ON = Execution(True, True, True, True, True, True)
OFF = Execution()
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU; make gpu-check")


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transformer Engine seems to be installed."""
    monkeypatch.setattr(declared, "has_kernels", lambda: True)
    monkeypatch.setattr(megatron, "has_transformer_engine", lambda: True)


def on_gpus(**options: Any) -> Config:
    return resolve(RunSettings(model="7b", **options), gpu=True)


def test_everything_is_off_on_a_cpu() -> None:
    config = resolve(RunSettings(gpus=4, tp=2), gpu=False)
    assert config.execution(2) == OFF


def test_defaults_on_gpus(engine: None) -> None:
    assert on_gpus(gpus=8, tp=2).execution(4) == ON
    # What has no effect is off, and does not have to be turned off.
    alone = replace(OFF, fuse_swiglu=True, fuse_rope=True, fuse_grad_accumulation=True)
    assert on_gpus().execution(1) == alone
    two = replace(alone, overlap_grad_reduce=True)
    assert on_gpus(gpus=2, distributed_optimizer=False).execution(2) == two
    assert on_gpus(gpus=2, tp=2).execution(1) == replace(alone, sequence_parallel=True)


def test_kernels_of_transformer_engine_are_off_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declared, "has_kernels", lambda: False)
    assert on_gpus().execution(1).kernels == ["fuse_swiglu"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tp": 2, "seq_length": 33, "sequence_parallel": True}, "33 tokens are not divisible by"),
        ({"overlap_param_gather": True, "overlap_grad_reduce": False}, "add --overlap-grad-reduce"),
    ],
)
def test_conflicts(options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        on_gpus(**options)


def test_a_machine_without_the_kernels_refuses_them(monkeypatch: pytest.MonkeyPatch) -> None:
    megatron.check_kernels([], gpu=False)
    megatron.check_kernels(["fuse_swiglu"], gpu=True)
    with pytest.raises(UsageError, match=r"^--fuse-swiglu: requires GPUs; leave it out$"):
        megatron.check_kernels(["fuse_swiglu"], gpu=False)
    monkeypatch.setattr(megatron, "has_transformer_engine", lambda: False)
    with pytest.raises(UsageError, match=r"^--fuse-rope: requires Transformer Engine; pip install"):
        megatron.check_kernels(["fuse_swiglu", "fuse_rope"], gpu=True)
    monkeypatch.setattr(megatron, "has_transformer_engine", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A100")
    megatron.check_kernels(["fuse_rope"], gpu=True)
    with pytest.raises(UsageError, match=r"^--fp8: A100 has no FP8; leave it out$"):
        megatron.check_kernels(["fp8"], gpu=True)


def losses(execution: Execution) -> list[float]:
    """Losses of ten steps on the GPU; one text, so that they fall."""
    ranks = start_ranks()
    shape = llama(2, 256, 64, 512)
    model = Model(shape, 512, ranks, seed=3, dtype=torch.bfloat16, execution=execution)
    ids = torch.arange(512, device=ranks.device)
    text = torch.randint(0, 512, (4, 129), generator=torch.Generator().manual_seed(1))
    batch = MicroBatch.of(text[:, :-1].numpy(), text[:, 1:].numpy(), ids.numpy(), ranks.device)
    return [float(optimizer_step(model, [batch, batch], 1e-3)[0][0].mean()) for _ in range(10)]


@gpu
@pytest.mark.parametrize(
    ("name", "value", "tolerance"),
    [
        ("fuse_swiglu", True, 2e-2),
        ("fuse_rope", True, 2e-2),
        ("fuse_grad_accumulation", True, 2e-2),
        ("fp8", "hybrid", 0.1),
        ("overlap_grad_reduce", True, 1e-3),
    ],
)
def test_losses_on_a_gpu_do_not_depend_on_it(name: str, value: Any, tolerance: float) -> None:
    if name not in ("fuse_swiglu", "overlap_grad_reduce") and not has_kernels():
        pytest.skip("needs Transformer Engine")
    plain, fused = losses(OFF), losses(replace(OFF, **{name: value}))
    assert fused == pytest.approx(plain, rel=tolerance)
    assert plain[-1] < plain[0] - 0.5
