"""Which layers the backbone is made of, and what its parameters are called."""

import sys
import types
from importlib.machinery import ModuleSpec

import pytest

from modtok_cli.base.errors import UsageError
from modtok_cli.training.distributed.megatron_core import core
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


def test_names_are_those_without_transformer_engine() -> None:
    layer = "block.layers.11."
    fused = ("self_attention.linear_qkv.layer_norm_weight", "mlp.linear_fc1.layer_norm_weight")
    plain = ("input_layernorm.weight", "pre_mlp_layernorm.weight")
    assert [megatron.plain_name(layer + name) for name in fused] == [layer + n for n in plain]
    for name in ("self_attention.linear_qkv.weight", "input_layernorm.weight"):
        assert megatron.plain_name(layer + name) == layer + name
