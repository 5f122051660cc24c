"""Shapes: JSON, validation and arithmetic."""

from dataclasses import replace
from typing import Any

import pytest

from modtok_cli.architectures.families.llama import llama
from modtok_cli.architectures.registry import architecture, architectures, read_shape
from modtok_cli.architectures.sizes import PAPER, SIZES, sizes
from modtok_cli.base.errors import ModtokError, UsageError

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
    # As llama.cpp rotates them.
    assert [name for name in architectures() if architecture(name).gguf_pairs] == [
        "llama", "mistral",
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
    assert SHAPE.scoring_bytes(2, 10, 4) == 2 * 10 * 4 * (2 * cache + 4 * 64 + 2 * 96)
    assert SHAPE.working_bytes(10, 2, shards=2) == 2 * 10 * 96 * 2 // 2
    # 6 for each weight, output row and number of an attention of 10 tokens, by 2 and 3 tokens.
    one, other = (6 * (SHAPE.parameters + 64 * rows + 2 * 10 * 64) for rows in (100, 50))
    assert SHAPE.step_flops(10, [(2, 100), (3, 50)]) == 2 * one + 3 * other
    assert SIZES["0.5b"].kv_bytes_per_token() == 58_368  # 2 · 6 heads · 128 · 19 layers · 2 bytes
    assert [SIZES[name].kv_bytes_per_token() // 1000 for name in PAPER] == [
        58, 86, 147, 327, 409, 745,
    ]  # fmt: skip
