"""Qwen 2 and 2.5: biases of queries, keys and values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from modtok_cli.architectures.decoder import Decoder


@dataclass(frozen=True)
class Qwen2(Decoder):
    """The shape of a Qwen2."""

    architecture: str = field(init=False, default="qwen2")

    hf_config: ClassVar[str] = "Qwen2Config"
    hf_model: ClassVar[str] = "Qwen2Model"
    hf_causal_model: ClassVar[str] = "Qwen2ForCausalLM"
    gguf_name: ClassVar[str] = "qwen2"

    options: ClassVar[Mapping[str, Any]] = {"qkv_bias": True}


ARCHITECTURE = Qwen2
