"""The shape of a decoder: sizes and switches, and its configuration in transformers.

A `Shape` is a frozen dataclass, its class a model family (`families/`). Llama, Mistral and Qwen
share RMS pre-norm, gated feed-forward, rotary embeddings, grouped queries. A family
states how it differs.

`arithmetic` has operations and bytes, `megatron_layout` the parameters in Megatron's form.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from modtok_cli.base.arrays import Float64Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.extras import missing_package, quiet, transformers
from modtok_cli.model.architecture.rope import (
    RopeScaling,
    count,
    number,
    rope_frequencies,
    rope_of_hf,
)

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Shape:
    """Sizes and switches of a decoder, without its vocabulary.

    Attributes:
        ffn: hidden size of the gated feed-forward layer.
        heads, kv_heads, head_width: query heads, key-value heads, and the size of each.
        norm: "rms".
        qk_norm: whether queries and keys are normalized per head.
        qkv_bias: whether the query, key and value projections have biases.
        tied: whether input and output embeddings are one table.
        architecture: name of the model family, see `registry`.
        options: fields of the shape that the family fixes; `qk_norm` and `qkv_bias` are off in
            others.
        hf_name: beginning of the names of its classes in transformers.
        hf_plain: its fields in transformers that must be unset, and the value that unsets them.
        hf_scales: whether its model in transformers multiplies rows that it is given by
            `input_scale` itself; else only its own table does.
        gguf_name: name of the architecture in GGUF.
        gguf_pairs: whether llama.cpp rotates adjacent rows of this family's heads.
        gguf_divides: whether its graph divides by the scale of logits, not multiplies.
        gguf_factors: whether its graph of this family divides rotary frequencies by `rope_freqs`.
        own_layer: whether `megatron_layer` changes Megatron's layer; Transformer Engine's layers
            are not used then.
    """

    layers: int
    hidden_size: int
    ffn: int
    heads: int
    kv_heads: int
    head_width: int
    rope_theta: float = 100_000.0
    rope_scaling: RopeScaling | None = None
    norm: str = "rms"
    norm_epsilon: float = 1e-5
    qk_norm: bool = False
    qkv_bias: bool = False
    tied: bool = False

    architecture: ClassVar[str] = ""
    options: ClassVar[Mapping[str, Any]] = {}
    hf_name: ClassVar[str]
    hf_plain: ClassVar[Mapping[str, bool | None]] = {}
    hf_scales: ClassVar[bool] = True
    gguf_name: ClassVar[str]
    gguf_divides: ClassVar[bool] = False
    gguf_pairs: ClassVar[bool] = False
    gguf_factors: ClassVar[bool] = False
    own_layer: ClassVar[bool] = False

    # --- reading and checking ---

    def as_json(self) -> dict[str, Any]:
        """All fields and `architecture`; `registry.read_shape` reads it."""
        return {**asdict(self), "architecture": self.architecture}

    def invalid_field(self) -> str | None:
        """Name of the first field that no model of the family can have, None if all are valid.

        Sizes are bounded: memory and time are spent by them before weights are seen.
        """
        checks = {
            "layers": 1 <= self.layers <= 1024,
            "hidden_size": 1 <= self.hidden_size <= 1 << 17,
            "ffn": 1 <= self.ffn <= 1 << 20,
            "heads": 1 <= self.heads <= 1 << 12,
            "kv_heads": 1 <= self.kv_heads <= self.heads and self.heads % self.kv_heads == 0,
            "head_width": 2 <= self.head_width <= 1 << 12 and self.head_width % 2 == 0,
            "rope_theta": 1 <= self.rope_theta < 1 << 53,
            "norm": self.norm == "rms",
            "norm_epsilon": 0 <= self.norm_epsilon < 1,
        }
        inner = None if self.rope_scaling is None else self.rope_scaling.invalid_field()
        checks[f"rope_scaling.{inner}"] = inner is None
        for name, value in {"qk_norm": False, "qkv_bias": False, **self.options}.items():
            checks[name] = getattr(self, name) == value
        return next((name for name, valid in checks.items() if not valid), None)

    def rope_divisors(self) -> Float64Array | None:
        """Divisor of each rotary frequency, (head_width / 2,); None without scaling."""
        if self.rope_scaling is None:
            return None
        return self.rope_scaling.divisors(rope_frequencies(self.head_width, self.rope_theta))

    @property
    def input_scale(self) -> float:
        """The factor of a family for input rows before the first layer."""
        return 1.0

    @property
    def logit_factor(self) -> float:
        """f of a family with logits l = f · h · w."""
        return 1.0

    @property
    def logit_cap(self) -> float | None:
        """c of a family with logits c · tanh(l / c); None: logits as they are."""
        return None

    def scaled(self, rows: Tensor) -> Tensor:
        """Input rows as the first layer takes them."""
        return rows if self.input_scale == 1 else rows * self.input_scale

    def logits(self, products: Tensor) -> Tensor:
        """Logits as the family has them, from products of hidden states and output rows."""
        cap = self.logit_cap
        logits = products if self.logit_factor == 1 else products * self.logit_factor
        return logits if cap is None else (logits / cap).tanh() * cap

    # --- arithmetic ---

    @property
    def layer_tensors(self) -> dict[str, tuple[str, str, tuple[int, ...]]]:
        """Modules of a layer whose weight only changes its name: Megatron → (transformers, GGUF,
        size of the weight).
        """
        d, width = self.hidden_size, self.head_width
        tensors: dict[str, tuple[str, str, tuple[int, ...]]] = {
            "self_attention.linear_proj": (
                "self_attn.o_proj", "attn_output", (d, self.heads * width)
            ),
            "mlp.linear_fc2": ("mlp.down_proj", "ffn_down", (d, self.ffn)),
            "input_layernorm": ("input_layernorm", "attn_norm", (d,)),
            "pre_mlp_layernorm": ("post_attention_layernorm", "ffn_norm", (d,)),
        }  # fmt: skip
        if self.qk_norm:
            for part in "qk":
                names = (f"self_attn.{part}_norm", f"attn_{part}_norm", (width,))
                tensors[f"self_attention.{part}_layernorm"] = names
        return tensors

    @property
    def layer_products(self) -> int:
        """Weights of one layer that are multiplied with every token: its matrices."""
        attention = self.hidden_size * self.head_width * 2 * (self.heads + self.kv_heads)
        return attention + 3 * self.hidden_size * self.ffn

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer: matrices, norms and biases."""
        biases = (self.heads + 2 * self.kv_heads) * self.head_width if self.qkv_bias else 0
        sizes = [size for _, _, size in self.layer_tensors.values()]
        return self.layer_products + biases + sum(size[0] for size in sizes if len(size) == 1)

    @property
    def parameters(self) -> int:
        """Parameters of the backbone: all layers and the final norm, no embeddings."""
        return self.layers * self.layer_parameters + self.hidden_size

    @property
    def tables(self) -> int:
        """Number of embedding tables: 1 if tied, else 2."""
        return 1 if self.tied else 2

    def table_parameters(self, vocabulary: int) -> int:
        """Parameters of the embedding tables for a vocabulary of that size."""
        return self.tables * vocabulary * self.hidden_size

    def kv_bytes_per_token(self, number_bytes: int = 2) -> int:
        """Bytes of the keys and values of one token in all layers."""
        return 2 * self.kv_heads * self.head_width * self.layers * number_bytes

    # --- Megatron ---

    def megatron_layer(self, parts: Any) -> None:
        """Change the `submodules` of Megatron's local layer, of a family with `own_layer`."""

    # --- transformers ---

    def hf_arguments(self) -> dict[str, Any]:
        """Arguments of the transformers configuration that the shape determines."""
        scaling = self.rope_scaling
        rope = {"rope_type": "default"} if scaling is None else scaling.to_hf()
        return {
            "hidden_size": self.hidden_size,
            "intermediate_size": self.ffn,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.head_width,
            "hidden_act": "silu",
            "rms_norm_eps": self.norm_epsilon,
            "rope_parameters": {**rope, "rope_theta": float(self.rope_theta)},
            "tie_word_embeddings": self.tied,
            **self.hf_plain,
        }

    @classmethod
    def of_hf(cls, config: Mapping[str, Any]) -> Shape:
        """The shape of a `config.json` of transformers, version 4 or 5.

        A field that it lacks is what transformers' class takes for it.
        """
        config = {**config, **cls._completed(config)}
        for name in (*cls.hf_plain, "use_sliding_window"):
            if config.get(name):
                raise ModtokError(f"field '{name}' is set, which is not supported")
        if config["hidden_act"] != "silu":
            raise ModtokError(f"activation '{config['hidden_act']}' is not supported")
        heads, hidden_size = (
            count(config, name) for name in ("num_attention_heads", "hidden_size")
        )
        theta, scaling = rope_of_hf(config)
        shape = cls(
            layers=count(config, "num_hidden_layers"),
            hidden_size=hidden_size,
            ffn=count(config, "intermediate_size"),
            heads=heads,
            kv_heads=count(config, "num_key_value_heads"),
            head_width=count(config, "head_dim", hidden_size // max(1, heads)),
            rope_theta=theta,
            rope_scaling=scaling,
            norm_epsilon=number(config, "rms_norm_eps"),
            tied=bool(config["tie_word_embeddings"]),
            **cls.options,
        )
        invalid = shape.invalid_field()
        if invalid:
            raise ModtokError(f"field '{invalid}' of the model is out of range")
        return shape

    @classmethod
    def _completed(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """All fields, as transformers reads a configuration."""
        try:
            with quiet():
                kind = getattr(transformers(), f"{cls.hf_name}Config")
                fields: dict[str, Any] = kind.from_dict(deepcopy({**config})).to_dict()
        except Exception as error:  # each configuration checks its fields in its own way
            if (lack := missing_package(error)) is not None:
                raise lack from error
            reason = " ".join(str(error).split())[:300]
            raise ModtokError(f"transformers does not read it ({reason})") from error
        return fields
