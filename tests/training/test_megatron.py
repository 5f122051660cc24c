"""Layers of the backbone, names of its parameters, and switches of its execution.

What two processes do with switches: `test_parallel`.
"""

from __future__ import annotations

import sys
import types
from dataclasses import replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from helpers.microbatches import microbatch, optimizer_step
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.model.architecture.families.llama import llama
from modtok_cli.training.config import Config
from modtok_cli.training.distributed.megatron_core import core
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model import megatron
from modtok_cli.training.model.execution import Execution, in_one_order
from modtok_cli.training.model.megatron import CausalAttention
from modtok_cli.training.model.model import Model
from modtok_cli.training.resolve import Origin, resolve
from modtok_cli.training.settings import RunSettings

PLAIN, ENGINE = Execution(fused=True), Execution(fused=True, transformer_engine=True)


@pytest.fixture
def transformer_engine(monkeypatch: pytest.MonkeyPatch) -> object:
    """Installed, as far as `import` can tell; what its layers would be."""
    specs = core().models.gpt.gpt_layer_specs  # first: it would ask for its version
    for name in ("transformer_engine", "transformer_engine.pytorch"):
        module = types.ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
    layers = object()
    monkeypatch.setattr(specs, "get_gpt_layer_with_transformer_engine_spec", lambda: layers)
    return layers


def test_layers_of_transformer_engine_and_plain_ones(transformer_engine: object) -> None:
    assert megatron.layer_spec(ENGINE) is transformer_engine
    attention = megatron.layer_spec(PLAIN).submodules.self_attention
    assert attention.submodules.core_attention is CausalAttention


def test_transformer_engine_must_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("modtok_cli.base.extras.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"transformer_engine requires .*'modtok\[gpu\]'"):
        megatron.layer_spec(ENGINE)


class Cosines(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten.cos.default
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("recompute", [0, 1, 2])
def test_tables_of_rotary_embeddings_are_made_once_and_are_megatrons(recompute: int) -> None:
    """Also where one of two layers is recomputed."""
    start_ranks()
    backbone = megatron.build_backbone(
        llama(2, 32, 8, 88), shards=1, device=torch.device("cpu"), dtype=torch.bfloat16, seed=0,
        recompute=recompute,
    )  # fmt: skip
    x = torch.randn(9, 2, 32, generator=torch.Generator().manual_seed(0)).bfloat16()
    found = []
    for own in (True, False):
        if not own:
            for attention in backbone.attentions:
                attention.rotary = None
            backbone.wrapped.module.attentions = []
        with Cosines() as cosines:
            for length in (9, 5, 9):
                part = x[:length].clone().requires_grad_()
                backbone.clear_gradients()
                with backbone.accumulating(more=False):
                    y = backbone(part)
                    y.backward(torch.ones_like(y))
        weights = [parameter.main_grad.clone() for parameter in backbone.parameters.values()]
        found.append([y, part.grad, *weights])
        # Megatron makes them for queries and keys of a layer, and again where it recomputes.
        assert cosines.count == (1 if own else 3 * 2 * (2 + recompute))
    for mine, other in zip(*found, strict=True):
        assert torch.equal(mine, other)


@pytest.mark.parametrize(
    ("wanted", "width", "dtype", "version", "expected"),
    [
        ("flash", 128, torch.bfloat16, "2.13.0", "flash"),
        ("cudnn", 128, torch.bfloat16, "2.11.0+cu130", "cudnn"),
        ("cudnn", 128, torch.bfloat16, "2.10.1", "flash"),
        ("cudnn", 128, torch.float32, "2.13.0", "flash"),
        ("cudnn", 192, torch.bfloat16, "2.13.0", "flash"),
        ("cudnn", 20, torch.bfloat16, "2.13.0", "flash"),
    ],
)
def test_a_kernel_is_chosen_by_version_and_heads(
    wanted: str, width: int, dtype: torch.dtype, version: str, expected: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(torch, "__version__", version)
    assert megatron.attention_kernel(wanted, width, dtype, masked=False) == expected
    assert megatron.attention_kernel(wanted, width, dtype, masked=True) == "flash"


def test_names_are_those_without_transformer_engine() -> None:
    layer = "block.layers.11."
    fused = ("self_attention.linear_qkv.layer_norm_weight", "mlp.linear_fc1.layer_norm_weight")
    plain = ("input_layernorm.weight", "pre_mlp_layernorm.weight")
    assert [megatron.plain_name(layer + name) for name in fused] == [layer + n for n in plain]
    for name in ("self_attention.linear_qkv.weight", "input_layernorm.weight"):
        assert megatron.plain_name(layer + name) == layer + name


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

    assert not growing().parallelism.distributed_optimizer
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
