"""The shape of a decoder, and what its model family must provide.

A `Shape` is a frozen dataclass with all sizes and switches of a backbone. Its class is the
adapter of a model family (`families/`): Megatron configuration, names and configuration in
transformers, names in GGUF. Arithmetic (parameters, FLOPs, memory) is here, for all families.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from modtok_cli.architectures.rope import RopeScaling, rope_frequencies

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from torch import Tensor

NORMS = ("rms", "layer")


@dataclass(frozen=True)
class Shape(ABC):
    """Sizes and switches of a decoder, without its vocabulary.

    Attributes:
        architecture: name of the model family, see `registry`.
        ffn: hidden size of the gated feed-forward layer.
        heads, kv_heads, head_width: query heads, key-value heads, and the size of each.
        norm: "rms" or "layer".
        qk_norm: whether queries and keys are normalized per head.
        qkv_bias: whether the query, key and value projections have biases.
        tied: whether input and output embeddings are one table.
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
    architecture: str = field(init=False, default="")

    # Names of the classes in transformers.
    hf_config: ClassVar[str]
    hf_model: ClassVar[str]
    hf_causal_model: ClassVar[str]
    # Name of the architecture in GGUF.
    gguf_name: ClassVar[str]

    # --- reading and checking ---

    def as_json(self) -> dict[str, Any]:
        """All fields, `architecture` included; `registry.read_shape` reads it."""
        return asdict(self)

    def invalid_field(self) -> str | None:
        """Name of the first field that no model can have, None if all are valid.

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
            "norm": self.norm in NORMS,
            "norm_epsilon": 0 <= self.norm_epsilon < 1,
        }
        found = next((name for name, valid in checks.items() if not valid), None)
        if found is None and self.rope_scaling is not None:
            inner = self.rope_scaling.invalid_field()
            found = None if inner is None else f"rope_scaling.{inner}"
        return found

    def rope_divisors(self) -> npt.NDArray[np.float64] | None:
        """Divisor of each rotary frequency, (head_width / 2,); None without scaling."""
        if self.rope_scaling is None:
            return None
        return self.rope_scaling.divisors(rope_frequencies(self.head_width, self.rope_theta))

    # --- arithmetic ---

    @property
    def layer_products(self) -> int:
        """Weights of one layer that are multiplied with every token: its matrices."""
        attention = self.hidden_size * self.head_width * 2 * (self.heads + self.kv_heads)
        return attention + 3 * self.hidden_size * self.ffn

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer: matrices, norms and biases."""
        norm = self.hidden_size * (2 if self.norm == "layer" else 1)
        biases = (self.heads + 2 * self.kv_heads) * self.head_width if self.qkv_bias else 0
        return self.layer_products + 2 * norm + biases + 2 * self.head_width * self.qk_norm

    @property
    def parameters(self) -> int:
        """Parameters of the backbone: all layers and the final norm, no embeddings."""
        final = self.hidden_size * (2 if self.norm == "layer" else 1)
        return self.layers * self.layer_parameters + final

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
        recompute: bool = False,
        shards: int = 1,
        sequence_parallel: bool = False,
        masked: bool = False,
    ) -> int:
        """Bytes that a forward pass keeps for the backward pass on one device.

        Counted on Megatron's local layers with N tokens of `number_bytes` b each, hidden size
        d, a = heads · head_width, g = kv_heads · head_width, feed-forward size f:

        * a norm keeps its input and the normalized input in float32, and its output:
          N d (8 + b), and 4 N for the scale. Every shard holds it whole, and with
          `sequence_parallel` the part of its tokens.
        * attention keeps queries, keys and values before and after rotation and its output:
          b N (3 a + 3 g), and 4 N per head; feed-forward b N 5 f. Shards divide these.
        * rotary embeddings keep 4 length · head_width numbers per layer; with `masked`, a mask
          of sequences · length² numbers.

        With `recompute` only the inputs of the layers are kept, and one layer at a time, when
        the final norm's are free again. Fused kernels keep less.
        """
        tokens, b = sequences * length, number_bytes
        own = tokens // shards if sequence_parallel else tokens
        norm = own * (self.hidden_size * (8 + b) + 4)
        wide = 3 * (self.heads + self.kv_heads) * self.head_width + 5 * self.ffn
        layer = 2 * norm + (tokens * (b * wide + 4 * self.heads)) // shards
        layer += 4 * length * self.head_width * b
        if masked:
            layer += sequences * length * length * b
        if recompute:
            return self.layers * own * self.hidden_size * b + layer
        whole = tokens * self.hidden_size * b if sequence_parallel else 0  # gathered for the loss
        return self.layers * layer + own * (self.hidden_size * 12 + 4) + whole

    def scoring_bytes(self, sequences: int, tokens: int, number_bytes: int) -> int:
        """Bytes of scoring a batch without gradients: KV cache twice, activations of one layer.

        The cache counts twice because scoring copies that of a shared prefix.
        """
        activations = (4 * self.hidden_size + 2 * self.ffn) * number_bytes
        return sequences * tokens * (2 * self.kv_bytes_per_token(number_bytes) + activations)

    def working_bytes(self, tokens: int, number_bytes: int, *, shards: int = 1) -> int:
        """Bytes of temporary gradients in the backward pass of a layer, at their peak.

        Those of both halves of the feed-forward layer: 2 N f.
        """
        return 2 * tokens * self.ffn * number_bytes // shards

    # --- Megatron ---

    @abstractmethod
    def megatron_config(self) -> dict[str, Any]:
        """Arguments of Megatron's `TransformerConfig` that the shape determines."""

    @abstractmethod
    def megatron_partition(self, name: str) -> tuple[int, int] | None:
        """How tensor parallelism splits a parameter: (dimension, interleaved parts), None if whole.

        With two parts ([gate; up] of SwiGLU) a shard holds its slice of each.
        """

    @abstractmethod
    def to_hf(self, backbone: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Megatron's parameters under the names of the transformers backbone.

        Raises:
            ModtokError: the family has no such parameter.
        """

    @abstractmethod
    def from_hf(self, weights: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
        """The inverse of `to_hf`: names and parameters of Megatron, one at a time.

        `weights` is read when a parameter is needed, so that it may read from files.

        Raises:
            ModtokError: a parameter is missing, unknown or of another size.
        """

    # --- transformers ---

    @abstractmethod
    def hf_arguments(self) -> dict[str, Any]:
        """Arguments of the transformers configuration that the shape determines."""

    @classmethod
    @abstractmethod
    def of_hf(cls, config: Mapping[str, Any]) -> Shape:
        """The shape of a transformers `config.json`.

        Raises:
            ModtokError: a model that this family does not cover, or a missing field.
        """

    # --- GGUF ---

    @abstractmethod
    def gguf_tensor(self, name: str, tensor: Tensor) -> tuple[str, Tensor]:
        """Name and layout in GGUF of a backbone parameter, given under its transformers name.

        Raises:
            ModtokError: GGUF has no place for it.
        """
