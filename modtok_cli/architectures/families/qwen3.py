"""Qwen 3: queries and keys normalized per head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from modtok_cli.architectures.decoder import Decoder


@dataclass(frozen=True)
class Qwen3(Decoder):
    """The shape of a Qwen3."""

    architecture: str = field(init=False, default="qwen3")

    hf_config: ClassVar[str] = "Qwen3Config"
    hf_model: ClassVar[str] = "Qwen3Model"
    hf_causal_model: ClassVar[str] = "Qwen3ForCausalLM"
    hf_plain: ClassVar[Mapping[str, bool | None]] = {"attention_bias": False}
    gguf_name: ClassVar[str] = "qwen3"

    options: ClassVar[Mapping[str, Any]] = {"qk_norm": True}


ARCHITECTURE = Qwen3
