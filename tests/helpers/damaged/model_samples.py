"""A published model, what is made of it, and files that tell commands what to do."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from modtok_cli.modular.adopted.adopt import adopt

WIDTH = 8
RECIPE = """[architecture]
model = "tiny"

[schedule]
steps = 300
lr = 3e-4
"""


def model_samples(root: Path) -> None:
    """After the texts: they are what the tokenizer is learned on."""
    _published(root / "published", (root / "fi.txt").read_text("utf-8").splitlines())
    adopt(root / "published", ["en", "fi"], data=root / "data").save(root / "adopted")
    (root / "keep.json").write_text("[0, 5, 300, 301]\n")
    (root / "recipe.toml").write_text(RECIPE)


def _published(place: Path, lines: list[str]) -> None:
    """A directory as `save_pretrained` writes it, with weights in two files."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=310, special_tokens=["<s>", "</s>"], show_progress=False,
        initial_alphabet=alphabet,
    )  # fmt: skip
    made.train_from_iterator(lines, trainer)
    place.mkdir()
    (place / "tokenizer.json").write_text(made.to_str(), "utf-8")
    rows = made.get_vocab_size()
    files: dict[str, dict[str, Any]] = {
        "tokenizer_config.json": {"eos_token": {"content": "</s>"}, "bos_token": "<s>"},
        "generation_config.json": {"eos_token_id": [1], "bos_token_id": 0},
        "config.json": {
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": rows,
            "bos_token_id": 0, "eos_token_id": 1, "hidden_size": WIDTH, "num_hidden_layers": 1,
            "tie_word_embeddings": False,
        },
    }  # fmt: skip
    table = np.arange(rows * WIDTH, dtype=np.float32).reshape(rows, WIDTH)
    parts = {
        "model-00001-of-00002.safetensors": {"model.embed_tokens.weight": table},
        "model-00002-of-00002.safetensors": {
            "model.norm.weight": np.ones(WIDTH, dtype=np.float32),
            "lm_head.weight": -table,
        },
    }
    for name, tensors in parts.items():
        save_file(tensors, place / name)
    files["model.safetensors.index.json"] = {
        "metadata": {"total_size": 0},
        "weight_map": {tensor: name for name, tensors in parts.items() for tensor in tensors},
    }
    for name, content in files.items():
        (place / name).write_text(json.dumps(content))
