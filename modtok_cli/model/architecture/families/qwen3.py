"""Qwen 3: queries and keys normalized per head."""

from typing import ClassVar

from modtok_cli.model.architecture.shape import Shape


class Qwen3(Shape):
    """The shape of a Qwen3."""

    architecture = "qwen3"
    options: ClassVar = {"qk_norm": True}
    hf_name = "Qwen3"
    hf_plain: ClassVar = {"attention_bias": False}
    gguf_name = "qwen3"


ARCHITECTURE = Qwen3
