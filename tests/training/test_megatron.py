"""Which layers the backbone is made of, and what its parameters are called."""

import sys
import types

import pytest

from modtok_cli.training.distributed.megatron_core import core
from modtok_cli.training.model import megatron
from modtok_cli.training.model.execution import Execution
from modtok_cli.training.model.megatron import CausalAttention

PLAIN, FUSED = Execution(), Execution(fused=True)


@pytest.fixture
def transformer_engine(monkeypatch: pytest.MonkeyPatch) -> object:
    """Installed, as far as `import` can tell; what its layers would be."""
    specs = core().models.gpt.gpt_layer_specs  # first: it would ask for its version
    for name in ("transformer_engine", "transformer_engine.pytorch"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    layers = object()
    monkeypatch.setattr(specs, "get_gpt_layer_with_transformer_engine_spec", lambda: layers)
    return layers


def attention_of(spec: object) -> object:
    return spec.submodules.self_attention.submodules.core_attention  # type: ignore[attr-defined]


def test_fused_layers_are_transformer_engines(transformer_engine: object) -> None:
    assert megatron.layer_spec(FUSED) is transformer_engine


def test_plain_layers_are_local(transformer_engine: object) -> None:
    assert attention_of(megatron.layer_spec(PLAIN)) is CausalAttention


def test_local_layers_without_transformer_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformer_engine", None)  # importing it fails
    assert not megatron.has_transformer_engine()
    assert attention_of(megatron.layer_spec(FUSED)) is CausalAttention


def test_one_that_cannot_be_loaded_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    real = megatron.import_module

    def broken(name: str) -> types.ModuleType:
        if name.startswith("transformer_engine"):
            raise OSError("libcudart.so.99: cannot open shared object file")
        return real(name)

    monkeypatch.setattr(megatron, "import_module", broken)
    assert not megatron.has_transformer_engine()


def test_names_are_those_without_transformer_engine() -> None:
    layer = "block.layers.11."
    fused = ("self_attention.linear_qkv.layer_norm_weight", "mlp.linear_fc1.layer_norm_weight")
    plain = ("input_layernorm.weight", "pre_mlp_layernorm.weight")
    assert [megatron.plain_name(layer + name) for name in fused] == [layer + n for n in plain]
    for name in ("self_attention.linear_qkv.weight", "input_layernorm.weight"):
        assert megatron.plain_name(layer + name) == layer + name
