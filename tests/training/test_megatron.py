"""Which layers the backbone is made of, and what its parameters are called."""

import sys
import types
from importlib.machinery import ModuleSpec

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from modtok_cli.architectures.families.llama import llama
from modtok_cli.base.errors import UsageError
from modtok_cli.training.distributed.megatron_core import core
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model import megatron
from modtok_cli.training.model.execution import Execution
from modtok_cli.training.model.megatron import CausalAttention

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


def attention_of(spec: object) -> object:
    return spec.submodules.self_attention.submodules.core_attention  # type: ignore[attr-defined]


def test_layers_of_transformer_engine(transformer_engine: object) -> None:
    assert megatron.layer_spec(ENGINE) is transformer_engine


def test_plain_layers_are_local(transformer_engine: object) -> None:
    assert attention_of(megatron.layer_spec(PLAIN)) is CausalAttention


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
