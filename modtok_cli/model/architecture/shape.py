"""The shape of a decoder: sizes and switches, arithmetic, and its names in other programs.

A `Shape` is a frozen dataclass, its class a model family (`families/`). Llama, Mistral and Qwen
share RMS pre-norm, gated feed-forward, rotary embeddings, grouped queries. A family
states how it differs.

Megatron keeps queries, keys and values of a key-value head together, [q … q k v], and [gate; up]
of the feed-forward layer in one matrix; transformers has a matrix for each. Rotary embeddings of
both rotate the two halves of a head, so rows within a head stay in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

_QKV = "self_attention.linear_qkv"
_GATE_UP = "mlp.linear_fc1"
_FINAL = "block.final_layernorm.weight"
# transformers → GGUF, of the matrices that Megatron keeps together.
_GGUF = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
}


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

    def step_flops(self, length: int, sizes: Sequence[tuple[int, float]]) -> float:
        """Floating-point operations of a training step, forward and backward.

        `sizes` holds (tokens, output rows) of each microbatch, `length` is the sequence's:
        6 per backbone parameter and token, 6 · d per output row and token, and 6 · S · d per
        layer and token for causal attention.
        """
        attention = 6 * self.layers * length * self.heads * self.head_width
        return float(
            sum(
                tokens * (6 * self.parameters + 6 * self.hidden_size * rows + attention)
                for tokens, rows in sizes
            )
        )

    def activation_bytes(
        self,
        sequences: int,
        length: int,
        number_bytes: int,
        *,
        recompute: int = 0,
        shards: int = 1,
        sequence_parallel: bool = False,
        masked: bool = False,
        fused: bool = False,
    ) -> int:
        """Bytes that a forward pass keeps for the backward pass on one device.

        Counted on Megatron's local layers with N tokens of `number_bytes` b each, hidden size
        d, a = heads · head_width, g = kv_heads · head_width, feed-forward size f:

        * a norm keeps its input and the normalized input in float32, and its output:
          N d (8 + b), and 4 N for the scale; `fused`, its input and its output: N d 2 b, and 4 N.
          Every shard holds it whole, and with `sequence_parallel` the part of its tokens.
        * attention keeps queries, keys and values before and after rotation and its output:
          b N (3 a + 3 g), and 4 N per head; feed-forward b N 5 f, `fused` b N 3 f: the input of
          SwiGLU and its output. Shards divide these.
        * rotary embeddings keep 2 length · head_width numbers; with `masked`, a layer keeps a mask
          of sequences · length² numbers.
        * the loss keeps the gradient of the hidden states in float32.

        Of `recompute` layers, the first ones, only the inputs are kept, and one layer at a time,
        when all that follows is free again.
        """
        tokens, b = sequences * length, number_bytes
        own = tokens // shards if sequence_parallel else tokens
        inside = b if fused else 8
        norm = own * (self.hidden_size * (inside + b) + 4)
        wide = 3 * (self.heads + self.kv_heads) * self.head_width + (3 if fused else 5) * self.ffn
        layer = 2 * norm + (tokens * (b * wide + 4 * self.heads)) // shards
        if masked:
            layer += sequences * length * length * b
        whole = tokens * self.hidden_size * b if sequence_parallel else 0  # gathered for the loss
        again = min(recompute, self.layers)
        rest = (self.layers - again) * layer + own * (self.hidden_size * (inside + 4) + 4) + whole
        tables = 2 * length * self.head_width * b
        return again * own * self.hidden_size * b + max(rest, layer if again else 0) + tables

    def recomputed_flops(self, length: int, tokens: int, recompute: int) -> float:
        """Floating-point operations of the second forward pass of so many layers."""
        attention = 2 * self.layers * length * self.heads * self.head_width
        again = min(recompute, self.layers) / self.layers
        return again * tokens * (2 * self.parameters + attention)

    def scoring_bytes(self, sequences: int, tokens: int, number_bytes: int) -> int:
        """Bytes of scoring a batch without gradients: KV cache twice, activations of one layer.

        The cache counts twice because scoring copies the cache of a shared prefix.
        """
        activations = (4 * self.hidden_size + 2 * self.ffn) * number_bytes
        return sequences * tokens * (2 * self.kv_bytes_per_token(number_bytes) + activations)

    def working_bytes(self, tokens: int, number_bytes: int, *, shards: int = 1) -> int:
        """Bytes of temporary gradients in the backward pass of a layer, at their peak.

        Activations of both halves of the feed-forward layer: 2 N f.
        """
        return 2 * tokens * self.ffn * number_bytes // shards

    # --- Megatron ---

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

    def megatron_layer(self, parts: Any) -> None:
        """Change the `submodules` of Megatron's local layer, of a family with `own_layer`."""

    def megatron_partition(self, name: str) -> tuple[int, int] | None:
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

    def to_hf(self, backbone: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Megatron's parameters under the names of the transformers backbone.

        Example: "block.layers.0.mlp.linear_fc1.weight" (2 f, d) becomes
        "layers.0.mlp.gate_proj.weight" and "layers.0.mlp.up_proj.weight", (f, d) each.
        """
        result: dict[str, Tensor] = {}
        renamed = self.layer_tensors
        for name, tensor in backbone.items():
            if name == _FINAL:
                result["norm.weight"] = tensor
                continue
            parts = name.removeprefix("block.").split(".", 2)
            layer, (module, _, kind) = f"layers.{parts[1]}.", parts[-1].rpartition(".")
            if module in renamed and kind == "weight":
                result[f"{layer}{renamed[module][0]}.weight"] = tensor
            elif module == _QKV:
                heads = tensor.reshape(self.kv_heads, -1, self.head_width, *tensor.shape[1:])
                queries = heads.shape[1] - 2
                split = heads[:, :queries], heads[:, queries : queries + 1], heads[:, queries + 1 :]
                for part, rows in zip("qkv", split, strict=True):
                    result[f"{layer}self_attn.{part}_proj.{kind}"] = rows.flatten(0, 2).contiguous()
            elif module == _GATE_UP and kind == "weight":
                gate, up = tensor.chunk(2)
                result[f"{layer}mlp.gate_proj.weight"] = gate.contiguous()
                result[f"{layer}mlp.up_proj.weight"] = up.contiguous()
            else:
                raise ModtokError(f"parameter '{name}' has no counterpart in {self.hf_name}Model")
        return result

    def from_hf(self, weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
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

        d, width, groups = self.hidden_size, self.head_width, self.kv_heads
        counts = (("q", self.heads), ("k", groups), ("v", groups))
        for index in range(self.layers):
            here, there = f"block.layers.{index}.", f"layers.{index}."
            for module, (renamed, _, size) in self.layer_tensors.items():
                yield f"{here}{module}.weight", take(f"{there}{renamed}.weight", *size)
            for kind, columns in (("weight", (d,)), ("bias", ()))[: 2 if self.qkv_bias else 1]:
                parts = [
                    take(f"{there}self_attn.{part}_proj.{kind}", heads * width, *columns).reshape(
                        groups, -1, width, *columns
                    )
                    for part, heads in counts
                ]
                yield f"{here}{_QKV}.{kind}", torch.cat(parts, 1).flatten(0, 2)
            gates = [take(f"{there}mlp.{part}_proj.weight", self.ffn, d) for part in ("gate", "up")]
            yield f"{here}{_GATE_UP}.weight", torch.cat(gates)
        yield _FINAL, take("norm.weight", d)
        if left:
            raise ModtokError(f"parameter '{min(left)}' has no counterpart in {self.hf_name}Model")

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

    # --- GGUF ---

    def gguf_tensor(self, name: str, tensor: Tensor) -> tuple[str, Tensor]:
        """Name and layout in GGUF of a backbone parameter, given under its transformers name."""
        if name == "norm.weight":
            return "output_norm.weight", tensor
        parts = name.split(".", 2)
        module, _, kind = parts[-1].rpartition(".")
        short = (_GGUF | {hf: gguf for hf, gguf, _ in self.layer_tensors.values()}).get(module)
        if parts[0] != "layers" or short is None:
            raise ModtokError(f"parameter '{name}' has no counterpart in GGUF")
        heads = {"attn_q": self.heads, "attn_k": self.kv_heads}.get(short)
        if self.gguf_pairs and heads is not None:
            # From halves to pairs: a head with rows 0 1 2 3 (0 rotates with 2) becomes 0 2 1 3.
            split = tensor.reshape(heads, 2, -1, tensor.shape[1])
            tensor = split.transpose(1, 2).reshape(tensor.shape)
        return f"blk.{parts[1]}.{short}.{kind}", tensor
