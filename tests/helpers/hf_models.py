"""Small random models of transformers, saved with a tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from modtok_cli.model.architecture.registry import architecture

COMMON: dict[str, Any] = {
    "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 2, "num_attention_heads": 6,
    "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 128,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
    "high_freq_factor": 4.0, "original_max_position_embeddings": 16,
}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"rope_parameters": LLAMA3, "tie_word_embeddings": True},
    "mistral": {"sliding_window": None, "rms_norm_eps": 1e-5},
    "qwen2": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e6}},
    "qwen3": {"num_key_value_heads": 6},
}


def save_model(
    family: str,
    path: Path,
    tokenizer_json: bytes,
    *,
    rows: int,
    dtype: str = "float32",
    shard: str = "5GB",
    **fields: Any,
) -> Any:
    """A random model with `rows` embedding rows; returns it as transformers reads it again."""
    import transformers

    kind = architecture(family).hf_name
    config = getattr(transformers, f"{kind}Config")(
        **{**COMMON, "vocab_size": rows, **FAMILIES.get(family, {}), **fields}
    )
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}ForCausalLM")(config)
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases are not what they begin with
            parameter.add_(torch.randn_like(parameter) * 0.1)
    model.to(getattr(torch, dtype)).save_pretrained(path, max_shard_size=shard)
    (path / "tokenizer.json").write_bytes(tokenizer_json)
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
