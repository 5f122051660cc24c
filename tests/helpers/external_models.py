"""Small random models of several architectures, as `save_pretrained` writes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from helpers.external_tokenizers import save_tokenizer

PADDED = 640
END = 599  # <|im_end|>
SMALL = {
    "vocab_size": PADDED, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
    "bos_token_id": 1, "eos_token_id": [2, 1], "pad_token_id": 3, "initializer_range": 0.2,
}  # fmt: skip
FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": {},
    "Mistral": {"head_dim": 8},
    "Qwen2": {"tie_word_embeddings": True},
    "Qwen3": {"head_dim": 8},
    "Phi3": {},
    "Gemma3Text": {"head_dim": 8, "tie_word_embeddings": True, "sliding_window": 32},
    "GPTNeoX": {},
    "Granite": {"logits_scaling": 8.0},
    "GPTJ": {"rotary_dim": 4},
    "OPT": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "GPTNeo": {"attention_types": [[["global", "local"], 1]], "window_size": 16},
}


def build(path: Path, family: str = "Llama", kind: str = "byte-level") -> Path:
    """A model with padded tables of 640 rows and a tokenizer of 602 tokens."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**SMALL, **FAMILIES.get(family, {}))
    name = f"{family.removesuffix('Text')}ForCausalLM"
    model = getattr(transformers, name)(config).eval()
    model.save_pretrained(path)
    (path / "generation_config.json").write_bytes(
        orjson.dumps({"bos_token_id": 1, "eos_token_id": [2, END], "suppress_tokens": [3]})
    )
    (path / "tokenizer.model").write_bytes(b"the old vocabulary")
    (path / "LICENSE").write_text("a licence")
    save_tokenizer(path, kind)
    return path
