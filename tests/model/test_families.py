"""Shapes and every architecture: names, layouts and numbers of Megatron, transformers and GGUF."""

from dataclasses import dataclass, fields, replace
from importlib.metadata import EntryPoint
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

from modtok_cli.base import plugins
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.model.architecture.arithmetic import scoring_bytes, step_flops, working_bytes
from modtok_cli.model.architecture.families.llama import Llama, llama
from modtok_cli.model.architecture.megatron_layout import from_hf, megatron_partition, to_hf
from modtok_cli.model.architecture.registry import (
    BY_SWITCHES,
    architecture,
    architectures,
    read_shape,
    with_switches,
)
from modtok_cli.model.architecture.rope import RopeScaling, rope_frequencies
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.model.architecture.sizes import PAPER, SIZES, sizes
from modtok_cli.model.generate.backbone import backbone_config, build_backbone, cache_name
from modtok_cli.training.distributed.megatron_core import partition
from modtok_cli.training.distributed.ranks import start_ranks
from modtok_cli.training.model import megatron

CPU = torch.device("cpu")
OTHERS = {
    name: EntryPoint(name, f"helpers.{name}:ARCHITECTURE", "modtok.architectures")
    for name in ("olmo2", "granite")
}
SCALED = RopeScaling("llama3", 8.0, original_context=16)


def small(name: str) -> Shape:
    """Three query heads per key-value head, heads wider than the hidden size asks for."""
    kind = architecture(name)
    return kind(2, 48, 80, 6, 2, 16, **kind.options)


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other packages: an architecture with norms in other places, one with scaled rows."""
    monkeypatch.setattr(plugins, "_entry_points", lambda group: OTHERS)


@pytest.fixture(params=[*architectures(), *OTHERS])
def shape(request: pytest.FixtureRequest) -> Shape:
    return small(request.param)


def backbone_of(shape: Shape) -> megatron.Backbone:
    start_ranks()
    return megatron.build_backbone(shape, shards=1, device=CPU, dtype=torch.float32, seed=0)


def weights_of(backbone: megatron.Backbone) -> dict[str, torch.Tensor]:
    """The weights, norms and biases moved away from their first values."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in backbone.parameters.values():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    return {name: tensor.detach() for name, tensor in backbone.parameters.items()}


@pytest.mark.parametrize("scaling", [None, RopeScaling("linear", 2.0), SCALED], ids=str)
def test_transformers_computes_what_megatron_does(
    shape: Shape, scaling: RopeScaling | None
) -> None:
    shape = replace(shape, rope_scaling=scaling)
    backbone = backbone_of(shape)
    weights = to_hf(shape, weights_of(backbone))
    theirs = build_backbone(shape, weights, "here", context=64)
    x = torch.randn(2, 24, 48, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        scaled = shape.scaled(x)
        expected = backbone(scaled.transpose(0, 1)).transpose(0, 1)
        found = theirs(inputs_embeds=x if shape.hf_scales else scaled).last_hidden_state
    torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


def test_bytes_of_the_cache_are_those_of_transformers(shape: Shape) -> None:
    theirs = build_backbone(shape, to_hf(shape, weights_of(backbone_of(shape))), "here", context=64)
    with torch.no_grad():
        output = theirs(inputs_embeds=torch.randn(2, 24, 48), use_cache=True)
    layers = getattr(output, cache_name(theirs)).layers
    held = sum(layer.keys.nbytes + layer.values.nbytes for layer in layers)
    assert held == 2 * 24 * shape.kv_bytes_per_token(4)
    # Scoring holds it twice, and the activations of a layer.
    activations = 2 * 24 * 4 * (4 * shape.hidden_size + 2 * shape.ffn)
    assert scoring_bytes(shape, 2, 24, 4) == 2 * held + activations


def test_parameters_and_shards_are_megatrons(shape: Shape) -> None:
    parameters = backbone_of(shape).parameters
    assert sum(each.numel() for each in parameters.values()) == shape.parameters
    for name, parameter in parameters.items():
        assert megatron_partition(name) == partition(parameter), name


def test_hf_names_round_trip(shape: Shape) -> None:
    weights = weights_of(backbone_of(shape))
    renamed = to_hf(shape, weights)
    again = dict(from_hf(shape, renamed))
    assert again.keys() == weights.keys()
    assert all(torch.equal(again[name], tensor) for name, tensor in weights.items())
    name, tensor = next(iter(renamed.items()))
    for wrong, message in (
        ({key: value for key, value in renamed.items() if key != name}, "is missing"),
        (renamed | {name: tensor[:-1]}, "expected"),
        (renamed | {"layers.9.x": tensor}, "has no counterpart"),
    ):
        with pytest.raises(ModtokError, match=message):
            dict(from_hf(shape, wrong))
    with pytest.raises(ModtokError, match="has no counterpart"):
        to_hf(shape, {"block.layers.0.strange.weight": tensor})


@pytest.mark.parametrize("scaling", [None, RopeScaling("linear", 2.0), SCALED], ids=str)
def test_hf_configuration_round_trips(shape: Shape, scaling: RopeScaling | None) -> None:
    shape = replace(shape, rope_scaling=scaling, tied=True, norm_epsilon=1e-6)
    config = backbone_config(shape, vocabulary=10, context=64, end=0, dtype=torch.float32)
    assert type(shape).of_hf(config.to_dict()) == shape
    with pytest.raises(ModtokError, match=r"does not read it .*field 'hidden_size'"):
        type(shape).of_hf(config.to_dict() | {"hidden_size": None})


def test_configurations_of_transformers_4() -> None:
    """Version 4 has "rope_theta" and "rope_scaling" beside each other."""
    old = {
        "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
        "num_attention_heads": 8, "num_key_value_heads": 4, "rms_norm_eps": 1e-5,
        "rope_theta": 1e5, "rope_scaling": {"type": "linear", "factor": 2.0},
    }  # fmt: skip
    expected = replace(llama(2, 64, 8, 96), rope_scaling=RopeScaling("linear", 2.0))
    assert architecture("llama").of_hf(old) == expected
    # What is left out is what transformers takes then.
    for family in architectures():
        plain = {**old, "sliding_window": None, "attention_multiplier": 8**-0.5}
        epsilon = 1e-5 if family == "olmo2" else 1e-6
        whole = architecture(family).of_hf(plain)
        for name, field, value in (
            ("rms_norm_eps", "norm_epsilon", epsilon),
            ("rope_theta", "rope_theta", 1e4),
            ("rope_scaling", "rope_scaling", None),
        ):
            given = {key: each for key, each in plain.items() if key != name}
            assert architecture(family).of_hf(given) == replace(whole, **{field: value}), family
    for family, name, field, value in (
        ("llama", "num_key_value_heads", "kv_heads", 32),
        ("mistral", "num_key_value_heads", "kv_heads", 8),
        ("qwen2", "num_key_value_heads", "kv_heads", 32),
        ("llama", "head_dim", "head_width", 2),
        ("qwen2", "head_dim", "head_width", 2),
        ("qwen3", "head_dim", "head_width", 128),
    ):
        given = {**old, "num_attention_heads": 32, "sliding_window": None, "head_dim": 4}
        del given[name]
        assert getattr(architecture(family).of_hf(given), field) == value, family
    with pytest.raises(ModtokError, match="field 'sliding_window' is set"):
        architecture("mistral").of_hf(old)
    for family in architectures():
        for name in (*architecture(family).hf_plain, "use_sliding_window"):
            value = 64 if name == "sliding_window" else True
            with pytest.raises(ModtokError, match=f"field '{name}' is set"):
                architecture(family).of_hf({**old, "sliding_window": None, name: value})
    for change, message in (
        ({"rope_scaling": {"type": "yarn", "factor": 2.0}}, "scaling 'yarn' is not supported"),
        ({"partial_rotary_factor": 0.5, "rope_scaling": None}, "'partial_rotary_factor' is not 1"),
        ({"rope_scaling": {"partial_rotary_factor": 0.5}}, "field 'partial_rotary_factor' is not"),
        ({"rope_scaling": [2.0]}, "does not read it .*field 'rope_parameters'"),
        ({"rope_theta": "1", "rope_scaling": None}, "field 'rope_theta' is '1', expected a number"),
        ({"hidden_act": "gelu"}, "activation 'gelu' is not supported"),
        ({"num_key_value_heads": 3}, "field 'kv_heads' of the model is out of range"),
    ):
        with pytest.raises(ModtokError, match=message):
            architecture("llama").of_hf(old | change)


def test_frequencies_of_rotary_embeddings() -> None:
    plain = rope_frequencies(16, 1e4)
    assert np.allclose(plain, 1e4 ** (-np.arange(8) / 8))
    assert np.allclose(rope_frequencies(16, 1e4, RopeScaling("linear", 4.0)), plain / 4)
    found = rope_frequencies(16, 1e4, RopeScaling("llama3", 4.0, original_context=64))
    assert found[0] == plain[0]  # fast: kept
    assert np.isclose(found[-1], plain[-1] / 4)  # slow: divided


def test_an_architecture_of_another_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """One file; `test_transformers_computes_what_megatron_does` and the others are about it too."""
    shape = replace(small("olmo2"), rope_scaling=SCALED)
    assert read_shape(shape.as_json(), "here") == shape
    assert {"llama", "olmo2"} < {*architectures()}
    # Options choose it only where it is listed for that.
    assert with_switches(replace(llama(2, 64, 8, 96), qk_norm=True)).architecture == "qwen3"
    monkeypatch.setattr(plugins, "_entry_points", lambda group: {})
    with pytest.raises(ModtokError, match=r"field 'shape\.architecture' is 'olmo2', expected"):
        read_shape(shape.as_json(), "here")


def test_a_shape_with_a_field_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass(frozen=True)
    class Toyformer(Llama):
        window: int = 7
        architecture = "toy"

    monkeypatch.setattr(
        EntryPoint, "load", lambda entry: Toyformer if entry.name == "toy" else None
    )
    toy = EntryPoint("toy", "nowhere", "modtok.architectures")
    monkeypatch.setattr(plugins, "_entry_points", lambda group: {toy.name: toy})
    stored = llama(2, 64, 8, 96).as_json() | {"architecture": "toy", "window": 9}
    assert read_shape(stored, "here").as_json() == stored


def test_switches_choose_one_architecture() -> None:
    plain = llama(2, 64, 8, 96)
    for norm, bias in product((False, True), repeat=2):
        shape = replace(plain, qk_norm=norm, qkv_bias=bias)
        values = {each.name: getattr(shape, each.name) for each in fields(shape)}
        kinds = [architecture(name)(**values) for name in BY_SWITCHES]
        fitting = [kind for kind in kinds if kind.invalid_field() is None]
        assert len(fitting) <= 1
        assert with_switches(shape) == (fitting or [shape])[0]


SHAPE = llama(2, 64, 8, 96)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"architecture": "os"}, "field 'shape.architecture' is 'os', expected one of "),
        ({"architecture": "../llama"}, "field 'shape.architecture' is '../llama'"),
        ({"architecture": ["llama"]}, "field 'shape.architecture'"),
        ({"kv_heads": 3}, "field 'shape.kv_heads' is out of range"),
        ({"head_width": 7}, "field 'shape.head_width' is out of range"),
        ({"norm": "batch"}, "field 'shape.norm' is out of range"),
        ({"qkv_bias": True}, "field 'shape.qkv_bias' is out of range"),
        ({"rope_scaling": {"kind": "x", "factor": 2.0}}, "'shape.rope_scaling.kind' is out"),
        ({"rope_scaling": {"kind": "linear"}}, "field 'shape.rope_scaling.factor' is missing"),
        ({"tied": 1}, "field 'shape.tied' is not true or false"),
        ({"stranger": 1}, "field 'shape.stranger' is not known"),
    ],
)
def test_invalid_shapes_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModtokError, match=f"^here: .*{message}"):
        read_shape(SHAPE.as_json() | change, "here")


@pytest.mark.parametrize(
    ("field", "least", "most", "below", "beyond"),
    [
        ("layers", 1, 1024, 0, 1025),
        ("hidden_size", 1, 1 << 17, 0, (1 << 17) + 1),
        ("ffn", 1, 1 << 20, 0, (1 << 20) + 1),
        ("heads", 8, 1 << 12, 0, (1 << 12) + 8),
        ("kv_heads", 1, 8, 0, 16),
        ("head_width", 2, 1 << 12, 0, (1 << 12) + 2),
        ("rope_theta", 1.0, float(1 << 52), 1 - 1e-9, float(1 << 53)),
        ("norm_epsilon", 0.0, 0.999, -1e-9, 1.0),
        ("rope_scaling.factor", 1.0, float((1 << 20) - 1), 0.99, float(1 << 20)),
        ("rope_scaling.low_frequency_factor", 0.01, 3.99, 0.0, 4.0),
        ("rope_scaling.high_frequency_factor", 1.01, float((1 << 20) - 1), 1.0, float(1 << 20)),
        ("rope_scaling.original_context", 1, (1 << 31) - 1, 0, 1 << 31),
    ],
)
def test_the_bounds_of_each_field(
    field: str, least: Any, most: Any, below: Any, beyond: Any
) -> None:
    """The numbers at its ends are valid, and the next ones not."""
    *parts, name = field.split(".")

    def given(value: Any) -> dict[str, Any]:
        inner = {"rope_scaling": {"kind": "llama3", "factor": 8.0, name: value}}
        return SHAPE.as_json() | {"kv_heads": 8} | (inner if parts else {name: value})

    for value in (least, most):
        read = read_shape(given(value), "here")
        assert getattr(read.rope_scaling if parts else read, name) == value
    for value in (below, beyond):
        with pytest.raises(ModtokError, match=rf"'shape\.{[*parts, name][0]}.*' is out of range"):
            read_shape(given(value), "here")


def test_registry() -> None:
    with pytest.raises(ModtokError, match=r"^here: .*'shape\.architecture' is None"):
        read_shape([], "here")
    # As llama.cpp rotates them.
    assert [name for name in architectures() if architecture(name).gguf_pairs] == [
        "granite", "llama", "mistral",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="architecture 'gpt9' is not supported"):
        architecture("gpt9")
    with pytest.raises(UsageError, match="model size '9b' does not exist"):
        sizes(["9b"])


def test_arithmetic_by_hand() -> None:
    # 2 layers of 64 · 8 · 2 · (8 + 4) + 3 · 64 · 96 weights and two norms; the final norm.
    assert SHAPE.layer_products == 12_288 + 18_432
    assert SHAPE.parameters == 2 * (12_288 + 18_432 + 128) + 64
    assert SHAPE.table_parameters(1000) == 128_000
    assert replace(SHAPE, tied=True).table_parameters(1000) == 64_000
    # Three biases of 8 and twice 4 heads of 8, in each layer.
    biased = replace(SHAPE, qkv_bias=True)
    assert biased.parameters == SHAPE.parameters + 2 * (8 + 2 * 4) * 8
    # 2 sequences of 10 tokens in 4 bytes: twice keys and values of 4 heads of 8 in 2 layers; four
    # vectors of the hidden size and two of the feed-forward layer.
    cache = 2 * 4 * 8 * 2
    assert scoring_bytes(SHAPE, 2, 10, 4) == 2 * 10 * 4 * (2 * cache + 4 * 64 + 2 * 96)
    assert working_bytes(SHAPE, 10, 2, shards=2) == 2 * 10 * 96 * 2 // 2
    # 6 for each weight, output row and number of an attention of 10 tokens, by 2 and 3 tokens.
    one, other = (6 * (SHAPE.parameters + 64 * rows + 2 * 10 * 64) for rows in (100, 50))
    assert step_flops(SHAPE, 10, [(2, 100), (3, 50)]) == 2 * one + 3 * other
    assert SIZES["0.5b"].kv_bytes_per_token() == 58_368  # 2 · 6 heads · 128 · 19 layers · 2 bytes
    assert [SIZES[name].kv_bytes_per_token() // 1000 for name in PAPER] == [
        58, 86, 147, 327, 409, 745,
    ]  # fmt: skip
