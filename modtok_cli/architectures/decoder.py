"""Decoders with RMS pre-norm, gated feed-forward, rotary embeddings and grouped queries.

Llama, Mistral and Qwen are such: they differ in QK-norm, biases and the layout of rotary rows.
Megatron keeps queries, keys and values of a key-value head together, [q … q k v], and [gate; up]
of the feed-forward layer in one matrix; transformers has a matrix for each. Rotary embeddings of
both rotate the two halves of a head, so rows within a head stay in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from modtok_cli.architectures.hf_config import count, number, rope, rope_arguments
from modtok_cli.architectures.shape import Shape
from modtok_cli.base.errors import ModtokError

if TYPE_CHECKING:
    from torch import Tensor

# Parameters of a layer that only change their names: Megatron → transformers.
_RENAMED = {
    "self_attention.linear_proj.weight": "self_attn.o_proj.weight",
    "mlp.linear_fc2.weight": "mlp.down_proj.weight",
    "input_layernorm.weight": "input_layernorm.weight",
    "pre_mlp_layernorm.weight": "post_attention_layernorm.weight",
}
_RENAMED_QK = {
    "self_attention.q_layernorm.weight": "self_attn.q_norm.weight",
    "self_attention.k_layernorm.weight": "self_attn.k_norm.weight",
}
_QKV = "self_attention.linear_qkv."
_GATE_UP = "mlp.linear_fc1.weight"
# transformers → GGUF.
_GGUF = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


@dataclass(frozen=True)
class Decoder(Shape):
    """What these families share.

    Attributes:
        options: fields of the shape that the family fixes.
        hf_plain: its fields in transformers that must be unset, and the value that unsets them.
        gguf_pairs: whether llama.cpp rotates adjacent rows of this family's heads.
    """

    options: ClassVar[Mapping[str, Any]] = {}
    hf_plain: ClassVar[Mapping[str, bool | None]] = {}
    gguf_pairs: ClassVar[bool] = False

    def invalid_field(self) -> str | None:
        """As for all shapes; fields that the family fixes have its values."""
        fixed = {"norm": "rms", "qk_norm": False, "qkv_bias": False, **self.options}
        found = super().invalid_field()
        return found or next(
            (name for name, value in fixed.items() if getattr(self, name) != value), None
        )

    def megatron_config(self) -> dict[str, Any]:
        """Arguments of Megatron's `TransformerConfig` that the shape determines."""
        from torch.nn.functional import silu

        return {
            "num_layers": self.layers,
            "hidden_size": self.hidden_size,
            "num_attention_heads": self.heads,
            "num_query_groups": self.kv_heads,
            "kv_channels": self.head_width,
            "ffn_hidden_size": self.ffn,
            "normalization": "RMSNorm",
            "layernorm_epsilon": self.norm_epsilon,
            "gated_linear_unit": True,
            "activation_func": silu,
            "add_bias_linear": False,
            "add_qkv_bias": self.qkv_bias,
            "qk_layernorm": self.qk_norm,
        }

    def megatron_partition(self, name: str) -> tuple[int, int] | None:
        """Projections out of the hidden size are split by rows, those into it by columns."""
        splits = {
            "linear_proj.weight": (1, 1),
            "linear_fc2.weight": (1, 1),
            "linear_qkv.weight": (0, 1),
            "linear_qkv.bias": (0, 1),
            "linear_fc1.weight": (0, 2),
        }
        return next((split for end, split in splits.items() if name.endswith(end)), None)

    @property
    def _renamed(self) -> dict[str, str]:
        return _RENAMED | (_RENAMED_QK if self.qk_norm else {})

    def to_hf(self, backbone: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Megatron's parameters under the names of transformers.

        Example: "block.layers.0.mlp.linear_fc1.weight" (2 f, d) becomes
        "layers.0.mlp.gate_proj.weight" and "layers.0.mlp.up_proj.weight", (f, d) each.

        Raises:
            ModtokError: the family has no such parameter.
        """
        found: dict[str, Tensor] = {}
        renamed = self._renamed
        for name, tensor in backbone.items():
            parts = name.removeprefix("block.").split(".", 2)
            if parts == ["final_layernorm", "weight"]:
                found["norm.weight"] = tensor
                continue
            layer, rest = f"layers.{parts[1]}.", parts[-1]
            if rest in renamed:
                found[layer + renamed[rest]] = tensor
            elif rest.startswith(_QKV):
                kind = rest.removeprefix(_QKV)  # weight or bias
                heads = tensor.reshape(self.kv_heads, -1, self.head_width, *tensor.shape[1:])
                queries = heads.shape[1] - 2
                split = heads[:, :queries], heads[:, queries : queries + 1], heads[:, queries + 1 :]
                for part, rows in zip("qkv", split, strict=True):
                    found[f"{layer}self_attn.{part}_proj.{kind}"] = rows.flatten(0, 2).contiguous()
            elif rest == _GATE_UP:
                gate, up = tensor.chunk(2)
                found[f"{layer}mlp.gate_proj.weight"] = gate.contiguous()
                found[f"{layer}mlp.up_proj.weight"] = up.contiguous()
            else:
                raise ModtokError(f"parameter '{name}' has no counterpart in {self.hf_model}")
        return found

    def from_hf(self, weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """The inverse of `to_hf`: names and parameters of Megatron, one at a time.

        `weights` is read when a parameter is needed, so that it may read from files.

        Raises:
            ModtokError: a parameter is missing, unknown or of another size.
        """
        import torch

        left = set(weights)

        def take(name: str, *sizes: int) -> Tensor:
            if name not in left:
                raise ModtokError(f"parameter '{name}' is missing")
            left.remove(name)
            tensor = weights[name]
            if tensor.shape != sizes:
                raise ModtokError(f"'{name}' is {tuple(tensor.shape)}, expected {sizes}")
            return tensor

        d, width, groups = self.hidden_size, self.head_width, self.kv_heads
        counts = (("q", self.heads), ("k", groups), ("v", groups))
        sizes = {
            "self_attention.linear_proj.weight": (d, self.heads * width),
            "mlp.linear_fc2.weight": (d, self.ffn),
            "input_layernorm.weight": (d,),
            "pre_mlp_layernorm.weight": (d,),
            **dict.fromkeys(_RENAMED_QK, (width,)),
        }
        for index in range(self.layers):
            here, there = f"block.layers.{index}.", f"layers.{index}."
            for name, renamed in self._renamed.items():
                yield here + name, take(there + renamed, *sizes[name])
            for kind, columns in (("weight", (d,)), ("bias", ()))[: 2 if self.qkv_bias else 1]:
                parts = [
                    take(f"{there}self_attn.{part}_proj.{kind}", heads * width, *columns).reshape(
                        groups, -1, width, *columns
                    )
                    for part, heads in counts
                ]
                yield here + _QKV + kind, torch.cat(parts, 1).flatten(0, 2)
            gates = [take(f"{there}mlp.{part}_proj.weight", self.ffn, d) for part in ("gate", "up")]
            yield here + _GATE_UP, torch.cat(gates)
        yield "block.final_layernorm.weight", take("norm.weight", d)
        if left:
            raise ModtokError(f"parameter '{min(left)}' has no counterpart in {self.hf_model}")

    def hf_arguments(self) -> dict[str, Any]:
        """Arguments of the transformers configuration that the shape determines."""
        return {
            "hidden_size": self.hidden_size,
            "intermediate_size": self.ffn,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_width,
            "hidden_act": "silu",
            "rms_norm_eps": self.norm_epsilon,
            "rope_parameters": rope_arguments(self.rope_theta, self.rope_scaling),
            "tie_word_embeddings": self.tied,
            **self.hf_plain,
        }

    @classmethod
    def of_hf(cls, config: Mapping[str, Any]) -> Shape:
        """The shape of a `config.json` of transformers, version 4 or 5.

        Raises:
            ModtokError: a model that this family does not cover, or a missing field.
        """
        for name in (*cls.hf_plain, "use_sliding_window"):
            if config.get(name):
                raise ModtokError(f"field '{name}' is set, which is not supported")
        if config.get("hidden_act", "silu") != "silu":
            raise ModtokError(f"activation '{config['hidden_act']}' is not supported")
        heads = count(config, "num_attention_heads")
        hidden_size = count(config, "hidden_size")
        theta, scaling = rope(config)
        shape = cls(
            layers=count(config, "num_hidden_layers"),
            hidden_size=hidden_size,
            ffn=count(config, "intermediate_size"),
            heads=heads,
            kv_heads=count(config, "num_key_value_heads", heads),
            head_width=count(config, "head_dim", hidden_size // max(1, heads)),
            rope_theta=theta,
            rope_scaling=scaling,
            norm_epsilon=number(config, "rms_norm_eps", 1e-6),
            tied=bool(config.get("tie_word_embeddings", False)),
            **cls.options,
        )
        invalid = shape.invalid_field()
        if invalid:
            raise ModtokError(f"field '{invalid}' of the model is out of range")
        return shape

    def gguf_tensor(self, name: str, tensor: Tensor) -> tuple[str, Tensor]:
        """Name and layout in GGUF of a backbone parameter, given under its transformers name.

        Raises:
            ModtokError: GGUF has no place for it.
        """
        if name == "norm.weight":
            return "output_norm.weight", tensor
        parts = name.split(".", 2)
        owner, _, kind = parts[-1].rpartition(".")
        short = _GGUF.get(owner)
        if parts[0] != "layers" or short is None:
            raise ModtokError(f"parameter '{name}' has no counterpart in GGUF")
        heads = {"attn_q": self.heads, "attn_k": self.kv_heads}.get(short)
        if self.gguf_pairs and heads is not None:
            tensor = interleaved(tensor, heads)
        return f"blk.{parts[1]}.{short}.{kind}", tensor


def interleaved(tensor: Tensor, heads: int) -> Tensor:
    """Rows of each head reordered from halves to pairs, as llama.cpp's Llama rotates them.

    A head with rows 0 1 2 3 (0 rotates with 2, 1 with 3) becomes 0 2 1 3.
    """
    split = tensor.reshape(heads, 2, -1, tensor.shape[1])
    return split.transpose(1, 2).reshape(tensor.shape)
