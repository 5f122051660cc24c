"""Megatron's backbone as transformers' Llama: the same numbers under other names.

Megatron keeps queries, keys and values of a key-value head together, [q q k v] for two
query heads a head, and [gate; up] of SwiGLU in one matrix. Rotary embeddings of both turn
the two halves of a head against each other, so nothing is permuted within a head.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.pretrain.presets import Shape

NORM_EPSILON = 1e-5  # of pretrain.megatron
_PLAIN = {
    "self_attention.linear_proj.weight": "self_attn.o_proj.weight",
    "mlp.linear_fc2.weight": "mlp.down_proj.weight",
    "input_layernorm.weight": "input_layernorm.weight",
    "pre_mlp_layernorm.weight": "post_attention_layernorm.weight",
}
_ANEW = "slice the run anew, or take another checkpoint with --step"
_QKV = "self_attention.linear_qkv.weight"
_GATE_UP = "mlp.linear_fc1.weight"


def llama_weights(backbone: Mapping[str, torch.Tensor], shape: Shape) -> dict[str, torch.Tensor]:
    """Backbone parameters by the names of transformers' `LlamaModel`.

    Example: "block.layers.0.mlp.linear_fc1.weight" (2 f, d) becomes
    "layers.0.mlp.gate_proj.weight" and "layers.0.mlp.up_proj.weight", (f, d) each.

    Raises:
        ModtokError: a parameter that a Llama does not have.
    """
    found: dict[str, torch.Tensor] = {}
    for name, tensor in backbone.items():
        parts = name.removeprefix("block.").split(".", 2)
        if parts[0] == "final_layernorm" and parts[1] == "weight":
            found["norm.weight"] = tensor
            continue
        layer, rest = f"layers.{parts[1]}.", parts[-1]
        if rest in _PLAIN:
            found[layer + _PLAIN[rest]] = tensor
        elif rest == _QKV:
            heads = tensor.reshape(shape.groups, -1, shape.head_width, shape.width)
            each = heads.shape[1] - 2
            parted = (heads[:, :each], heads[:, each : each + 1], heads[:, each + 1 :])
            for part, rows in zip("qkv", parted, strict=True):
                found[f"{layer}self_attn.{part}_proj.weight"] = rows.flatten(0, 2).contiguous()
        elif rest == _GATE_UP:
            gate, up = tensor.chunk(2)
            found[f"{layer}mlp.gate_proj.weight"] = gate.contiguous()
            found[f"{layer}mlp.up_proj.weight"] = up.contiguous()
        else:
            raise ModtokError(f"parameter '{name}' has no place in a Llama")
    return found


def llama_config(
    shape: Shape, *, vocabulary: int, context: int, end: int, tied: bool, dtype: torch.dtype
) -> Any:
    """transformers' `LlamaConfig` of a shape; `end` is the id of the end of text."""
    from transformers import LlamaConfig

    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.ffn,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.groups,
        head_dim=shape.head_width,
        hidden_act="silu",
        max_position_embeddings=context,
        rms_norm_eps=NORM_EPSILON,
        rope_parameters={"rope_type": "default", "rope_theta": float(shape.rope_theta)},
        attention_bias=False,
        mlp_bias=False,
        tie_word_embeddings=tied,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        dtype=dtype,
        architectures=["LlamaForCausalLM"],
    )


def build_llama(config: Any, weights: Mapping[str, torch.Tensor], where: str) -> Any:
    """transformers' `LlamaModel` without a table: it is fed embeddings.

    Raises:
        ModtokError: weights of another shape, or not all of them.
    """
    from transformers import LlamaModel

    config = type(config)(**{**config.to_dict(), "vocab_size": 1, "pad_token_id": None})
    with torch.device("meta"):
        model = LlamaModel(config)
    rotary = type(model.rotary_emb)(config)  # its frequencies are no weights
    try:
        stray = model.load_state_dict(dict(weights), strict=False, assign=True)
    except RuntimeError as error:
        told = " ".join(str(error).split())
        raise ModtokError(f"is of another model ({told})", where=where, remedy=_ANEW) from error
    missing = [name for name in stray.missing_keys if name != "embed_tokens.weight"]
    if missing or stray.unexpected_keys:
        wrong = (missing or stray.unexpected_keys)[0]
        raise ModtokError(f"is of another model (parameter '{wrong}')", where=where, remedy=_ANEW)
    model.embed_tokens = torch.nn.Embedding(1, config.hidden_size)
    model.rotary_emb = rotary
    return model.eval().requires_grad_(False)
