"""Parameters of a decoder as Megatron has them, and their form in transformers.

Megatron keeps queries, keys and values of a key-value head together, [q … q k v], and [gate; up]
of the feed-forward layer in one matrix; transformers has a matrix for each. Rotary embeddings of
both rotate the two halves of a head, so rows within a head stay in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from modtok_cli.base.errors import ModtokError
from modtok_cli.model.architecture.shape import Shape

if TYPE_CHECKING:
    from torch import Tensor

_QKV = "self_attention.linear_qkv"
_GATE_UP = "mlp.linear_fc1"
_FINAL = "block.final_layernorm.weight"


def megatron_config(shape: Shape) -> dict[str, Any]:
    """Arguments of Megatron's `TransformerConfig` that the shape determines."""
    from torch.nn.functional import silu

    return {
        "num_layers": shape.layers,
        "hidden_size": shape.hidden_size,
        "num_attention_heads": shape.heads,
        "num_query_groups": shape.kv_heads,
        "kv_channels": shape.head_width,
        "ffn_hidden_size": shape.ffn,
        "normalization": "RMSNorm",
        "layernorm_epsilon": shape.norm_epsilon,
        "gated_linear_unit": True,
        "activation_func": silu,
        "add_bias_linear": False,
        "add_qkv_bias": shape.qkv_bias,
        "qk_layernorm": shape.qk_norm,
    }


def megatron_partition(name: str) -> tuple[int, int] | None:
    """How tensor parallelism splits a parameter: (dimension, interleaved parts), None if whole.

    Projections out of the hidden size are split by rows, those into it by columns. With two
    parts ([gate; up] of SwiGLU) a shard holds its slice of each.
    """
    splits = {
        "linear_proj.weight": (1, 1),
        "linear_fc2.weight": (1, 1),
        "linear_qkv.weight": (0, 1),
        "linear_qkv.bias": (0, 1),
        "linear_fc1.weight": (0, 2),
    }
    return next((split for end, split in splits.items() if name.endswith(end)), None)


def to_hf(shape: Shape, backbone: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Megatron's parameters under the names of the transformers backbone.

    Example: "block.layers.0.mlp.linear_fc1.weight" (2 f, d) becomes
    "layers.0.mlp.gate_proj.weight" and "layers.0.mlp.up_proj.weight", (f, d) each.
    """
    result: dict[str, Tensor] = {}
    renamed = shape.layer_tensors
    for name, tensor in backbone.items():
        if name == _FINAL:
            result["norm.weight"] = tensor
            continue
        parts = name.removeprefix("block.").split(".", 2)
        layer, (module, _, kind) = f"layers.{parts[1]}.", parts[-1].rpartition(".")
        if module in renamed and kind == "weight":
            result[f"{layer}{renamed[module][0]}.weight"] = tensor
        elif module == _QKV:
            heads = tensor.reshape(shape.kv_heads, -1, shape.head_width, *tensor.shape[1:])
            queries = heads.shape[1] - 2
            split = heads[:, :queries], heads[:, queries : queries + 1], heads[:, queries + 1 :]
            for part, rows in zip("qkv", split, strict=True):
                result[f"{layer}self_attn.{part}_proj.{kind}"] = rows.flatten(0, 2).contiguous()
        elif module == _GATE_UP and kind == "weight":
            gate, up = tensor.chunk(2)
            result[f"{layer}mlp.gate_proj.weight"] = gate.contiguous()
            result[f"{layer}mlp.up_proj.weight"] = up.contiguous()
        else:
            raise ModtokError(f"parameter '{name}' has no counterpart in {shape.hf_name}Model")
    return result


def from_hf(shape: Shape, weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """The inverse of `to_hf`: names and parameters of Megatron, one at a time.

    `weights` is read when a parameter is needed, so that it may read from files.
    """
    import torch

    left = set(weights)

    def take(name: str, *size: int) -> Tensor:
        if name not in left:
            raise ModtokError(f"parameter '{name}' is missing")
        left.remove(name)
        tensor = weights[name]
        if tensor.shape != size:
            raise ModtokError(f"'{name}' is {tuple(tensor.shape)}, expected {size}")
        return tensor

    d, width, groups = shape.hidden_size, shape.head_width, shape.kv_heads
    counts = (("q", shape.heads), ("k", groups), ("v", groups))
    for index in range(shape.layers):
        here, there = f"block.layers.{index}.", f"layers.{index}."
        for module, (renamed, _, size) in shape.layer_tensors.items():
            yield f"{here}{module}.weight", take(f"{there}{renamed}.weight", *size)
        for kind, columns in (("weight", (d,)), ("bias", ()))[: 2 if shape.qkv_bias else 1]:
            parts = [
                take(f"{there}self_attn.{part}_proj.{kind}", heads * width, *columns).reshape(
                    groups, -1, width, *columns
                )
                for part, heads in counts
            ]
            yield f"{here}{_QKV}.{kind}", torch.cat(parts, 1).flatten(0, 2)
        gates = [take(f"{there}mlp.{part}_proj.weight", shape.ffn, d) for part in ("gate", "up")]
        yield f"{here}{_GATE_UP}.weight", torch.cat(gates)
    yield _FINAL, take("norm.weight", d)
    if left:
        raise ModtokError(f"parameter '{min(left)}' has no counterpart in {shape.hf_name}Model")
