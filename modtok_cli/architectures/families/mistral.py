"""Mistral: a Llama under another name; sliding windows are not supported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from modtok_cli.architectures.decoder import Decoder


@dataclass(frozen=True)
class Mistral(Decoder):
    """The shape of a Mistral."""

    architecture: str = field(init=False, default="mistral")

    hf_config: ClassVar[str] = "MistralConfig"
    hf_model: ClassVar[str] = "MistralModel"
    hf_causal_model: ClassVar[str] = "MistralForCausalLM"
    hf_plain: ClassVar[Mapping[str, bool | None]] = {"sliding_window": None}
    gguf_name: ClassVar[str] = "llama"
    gguf_pairs: ClassVar[bool] = True


ARCHITECTURE = Mistral
