"""Settings with which PEFT trains the new rows of a transplanted model, and adapters."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from modtok_cli.model.architecture.complete import model_class
from modtok_cli.model.architecture.stored_model import HfDirectory, open_config
from modtok_cli.model.architecture.token_rows import PEFT, TRAINABLE
from modtok_cli.model.hf.model_files import write_object


def is_output(name: str) -> bool:
    """Whether a table is of outputs alone."""
    return re.search(r"(^|[._])(head|output|embed_out|lm_loss)\b", name) is not None


def write_peft(directory: Path, tables: Sequence[str], rows: Sequence[int]) -> None:
    """Write arguments of `LoraConfig` for the model in `directory`.

    Args:
        tables: names of the weights with a row per token.
        rows: ids of tokens with new rows; all other rows stay as they are.
    """
    config = open_config(directory)
    tied = getattr(config, "tie_word_embeddings", False) and not HfDirectory(directory).diverged
    if tied:  # PEFT trains both sides as one
        tables = [name for name in tables if not is_output(name)] or tables
    modules = [name.removesuffix(".weight").rpartition(".")[2] for name in tables]
    causal = model_class(config).__name__.endswith(("ForCausalLM", "LMHeadModel"))
    settings = {
        **({"task_type": "CAUSAL_LM"} if causal else {}),
        "r": 16,
        "lora_alpha": 32,
        "target_modules": "all-linear",
        TRAINABLE: dict.fromkeys(modules, rows),
    }
    write_object(directory / PEFT, settings)


def renumbered(settings: Mapping[str, Any], new_of: Mapping[int, int]) -> dict[str, Any]:
    """The settings for the tokens that a slice keeps, by their new ids.

    >>> renumbered({"r": 16, TRAINABLE: {"embed_tokens": [4, 7]}}, {7: 2})
    {'r': 16, 'trainable_token_indices': {'embed_tokens': [2]}}
    """
    tokens = settings.get(TRAINABLE)
    if not isinstance(tokens, Mapping):
        return dict(settings)
    kept = {
        module: [new_of[index] for index in ids if index in new_of]
        for module, ids in tokens.items()
    }
    return {**settings, TRAINABLE: kept}
