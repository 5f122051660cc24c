"""Llama: no biases, no QK-norm."""

from typing import ClassVar

from modtok_cli.model.architecture.shape import Shape


class Llama(Shape):
    """The shape of a Llama."""

    architecture = "llama"
    hf_name = "Llama"
    hf_plain: ClassVar = {"attention_bias": False, "mlp_bias": False}
    gguf_name = "llama"
    gguf_pairs = True
    gguf_factors = True


def llama(layers: int, hidden_size: int, head_width: int, ffn: int) -> Llama:
    """A Llama with two query heads per key-value head, as all presets have.

    >>> llama(4, 128, 32, 352).kv_heads
    2
    """
    heads = hidden_size // head_width
    return Llama(layers, hidden_size, ffn, heads, heads // 2, head_width)


ARCHITECTURE = Llama
