"""Qwen 2 and 2.5: biases of queries, keys and values."""

from typing import ClassVar

from modtok_cli.model.architecture.shape import Shape


class Qwen2(Shape):
    """The shape of a Qwen2."""

    architecture = "qwen2"
    options: ClassVar = {"qkv_bias": True}
    hf_name = "Qwen2"
    gguf_name = "qwen2"


ARCHITECTURE = Qwen2
