"""Llama: no biases, no QK-norm."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from modtok_cli.architectures.decoder import Decoder


@dataclass(frozen=True)
class Llama(Decoder):
    """The shape of a Llama."""

    architecture: str = field(init=False, default="llama")

    hf_config: ClassVar[str] = "LlamaConfig"
    hf_model: ClassVar[str] = "LlamaModel"
    hf_causal_model: ClassVar[str] = "LlamaForCausalLM"
    hf_plain: ClassVar[Mapping[str, bool | None]] = {"attention_bias": False, "mlp_bias": False}
    gguf_name: ClassVar[str] = "llama"
    gguf_pairs: ClassVar[bool] = True


def llama(layers: int, hidden_size: int, head_width: int, ffn: int, *, tied: bool = False) -> Llama:
    """A Llama with two query heads per key-value head, as all presets have.

    >>> llama(4, 128, 32, 352).kv_heads
    2
    """
    heads = hidden_size // head_width
    return Llama(layers, hidden_size, ffn, heads, heads // 2, head_width, tied=tied)


ARCHITECTURE = Llama
