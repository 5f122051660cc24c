"""Mistral: a Llama under another name; sliding windows are not supported."""

from typing import ClassVar

from modtok_cli.model.architecture.shape import Shape


class Mistral(Shape):
    """The shape of a Mistral."""

    architecture = "mistral"
    hf_name = "Mistral"
    hf_plain: ClassVar = {"sliding_window": None}
    gguf_name = "llama"
    gguf_pairs = True
    gguf_factors = True


ARCHITECTURE = Mistral
