"""A GGUF file read back: names of its tensors, and logits by llama.cpp's graph.

The graph of the Llama family is small: it is written here a second time, from the file alone, so
that a wrong name, layout or key changes the logits.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

_BIASED = ("llama", "qwen2")


class GgufFile:
    """The tensors and the metadata of a file, as llama.cpp reads them."""

    def __init__(self, path: Path) -> None:
        import gguf

        reader = gguf.GGUFReader(path)
        self._dequantized: Callable[..., Any] = gguf.quants.dequantize
        self.fields = {name: field.contents() for name, field in reader.fields.items()}
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.architecture = str(self.fields["general.architecture"])
        self.unused = {*self.tensors}

    def key(self, name: str, default: Any = None) -> Any:
        """The value of a key of the architecture."""
        return self.fields.get(f"{self.architecture}.{name}", default)

    def tensor(self, name: str) -> torch.Tensor:
        """A tensor in float32, with the shape that it has in torch."""
        assert name in self.tensors, f"tensor '{name}' is missing"
        stored = self.tensors[name]
        self.unused.discard(name)
        data = self._dequantized(stored.data, stored.tensor_type)
        shape = [int(size) for size in stored.shape[::-1]]
        return torch.from_numpy(np.array(data, dtype=np.float32)).reshape(shape)

    def linear(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """The product with a matrix, and its bias if there is one."""
        has_bias = f"{name}.bias" in self.tensors and self.architecture in _BIASED
        bias = self.tensor(f"{name}.bias") if has_bias else None
        return F.linear(x, self.tensor(f"{name}.weight"), bias)


def check(path: Path, logits_of: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Assert that llama.cpp uses all tensors of a file and no other, and computes these logits."""
    file = GgufFile(path)
    size = len(file.fields["tokenizer.ggml.tokens"])
    ids = torch.from_numpy(np.random.default_rng(0).integers(0, size, (2, 40)))
    with torch.inference_mode():
        found, expected = logits(file, ids), logits_of(ids)[..., :size]
    assert not file.unused, f"llama.cpp's {file.architecture} has no tensor {sorted(file.unused)}"
    gap = float((found[..., : expected.shape[-1]] - expected).abs().max() / expected.abs().max())
    assert gap < 1e-3, f"logits differ by {gap:.2g}"


def logits(file: GgufFile, ids: torch.Tensor) -> torch.Tensor:
    """Logits (B, S, V) of token ids (B, S), float32, as llama.cpp's graph computes them."""
    heads, groups = file.key("attention.head_count"), file.key("attention.head_count_kv")
    width, epsilon = file.key("attention.key_length"), file.key("attention.layer_norm_rms_epsilon")
    cos, sin = _turns(file, ids.shape[1], file.key("rope.dimension_count"))
    table = file.tensor("token_embd.weight")
    x = table[ids]

    def norm(values: torch.Tensor, name: str) -> torch.Tensor:
        weight = file.tensor(f"{name}.weight")
        return F.rms_norm(values, weight.shape, weight, epsilon)

    # OLMo 2 normalizes what attention and feed-forward layer give, and all heads together.
    after = file.architecture == "olmo2"
    for index in range(file.key("block_count")):
        block = f"blk.{index}."
        inputs = x if after else norm(x, f"{block}attn_norm")
        parts = []
        for part, count in (("q", heads), ("k", groups), ("v", groups)):
            values = file.linear(inputs, f"{block}attn_{part}")
            if part != "v" and after:
                values = norm(values, f"{block}attn_{part}_norm")
            values = values.reshape(*ids.shape, count, width)
            if part != "v" and file.architecture == "qwen3":
                values = norm(values, f"{block}attn_{part}_norm")
            values = values.transpose(1, 2)
            if part != "v":
                values = _turned(values, cos, sin, adjacent=file.architecture == "llama")
            parts.append(values.repeat_interleave(heads // count, 1))
        q, k, v = parts
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        attended = file.linear(attended.flatten(-2), f"{block}attn_output")
        x = x + (norm(attended, f"{block}post_attention_norm") if after else attended)
        inputs = x if after else norm(x, f"{block}ffn_norm")
        gate = F.silu(file.linear(inputs, f"{block}ffn_gate"))
        fed = file.linear(gate * file.linear(inputs, f"{block}ffn_up"), f"{block}ffn_down")
        x = x + (norm(fed, f"{block}post_ffw_norm") if after else fed)
    head = file.tensor("output.weight") if "output.weight" in file.tensors else table
    whole = norm(x, "output_norm") @ head.T
    cap = file.key("final_logit_softcapping", 0.0)
    return (whole / cap).tanh() * cap if cap else whole


def _turns(file: GgufFile, length: int, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cosine and sine of the angle of each pair at each position; (S, width / 2) each."""
    base = file.key("rope.freq_base", 10_000.0)
    frequencies = base ** -(torch.arange(0, width, 2).double() / width)
    if "rope_freqs.weight" in file.tensors and file.architecture == "llama":
        frequencies = frequencies / file.tensor("rope_freqs.weight").double()
    if file.key("rope.scaling.type") == "linear":
        frequencies = frequencies / file.key("rope.scaling.factor")
    angles = torch.outer(torch.arange(length).double(), frequencies)
    return angles.cos().float(), angles.sin().float()


def _turned(
    x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, *, adjacent: bool
) -> torch.Tensor:
    """Heads (B, heads, S, width) rotated by their positions."""
    pairs = x.reshape(*x.shape[:-1], *((-1, 2) if adjacent else (2, -1)))
    one, two = pairs.unbind(-1 if adjacent else -2)
    turned = (one * cos - two * sin, one * sin + two * cos)
    return torch.stack(turned, -1 if adjacent else -2).flatten(-2)
