"""The backbone of a shape in transformers: configuration, model fed with embeddings, dtypes."""

from collections.abc import Mapping
from inspect import signature
from typing import Any

import torch

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.extras import transformers
from modtok_cli.model.architecture.shape import Shape

DTYPES = ("float32", "bfloat16", "float16")
"""Dtypes of weights in files."""
_REMEDY = "slice the run again, or choose another checkpoint with --step"


def backbone_config(
    shape: Shape, *, vocabulary: int, context: int, end: int, dtype: torch.dtype
) -> Any:
    """The transformers configuration of a shape; `end` is the id of the end-of-text token."""
    return getattr(transformers(), f"{shape.hf_name}Config")(
        vocab_size=vocabulary,
        max_position_embeddings=context,
        bos_token_id=end,
        eos_token_id=end,
        pad_token_id=end,
        dtype=dtype,
        architectures=[f"{shape.hf_name}ForCausalLM"],
        **shape.hf_arguments(),
    )


def empty_backbone(shape: Shape, config: Any) -> Any:
    """The transformers backbone with a table of one row, on the meta device but for its RoPE."""
    config = type(config)(**{**config.to_dict(), "vocab_size": 1, "pad_token_id": None})
    with torch.device("meta"):
        model = getattr(transformers(), f"{shape.hf_name}Model")(config)
    model.rotary_emb = type(model.rotary_emb)(config)  # its frequencies are not weights
    return model


def build_backbone(
    shape: Shape, weights: Mapping[str, torch.Tensor], where: str, *, context: int
) -> Any:
    """The transformers backbone with these weights and no table: it is fed embeddings."""
    dtype = next(iter(weights.values())).dtype
    config = backbone_config(shape, vocabulary=1, context=context, end=0, dtype=dtype)
    model = empty_backbone(shape, config)
    rotary = model.rotary_emb
    try:
        stray = model.load_state_dict(dict(weights), strict=False, assign=True)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise ModtokError(
            f"does not fit the model ({reason})", where=where, remedy=_REMEDY
        ) from error
    missing = [name for name in stray.missing_keys if name != "embed_tokens.weight"]
    if missing or stray.unexpected_keys:
        name = (missing or stray.unexpected_keys)[0]
        raise ModtokError(
            f"does not fit the model (parameter '{name}')", where=where, remedy=_REMEDY
        )
    model.embed_tokens = torch.nn.Embedding(1, config.hidden_size)
    model.rotary_emb = rotary
    return model.eval().requires_grad_(False)


def forward_parameters(model: Any) -> set[str]:
    """Names of the parameters of a model's `forward`."""
    return set(signature(type(model).forward).parameters)


def cache_name(model: Any) -> str:
    """The parameter and the output of a transformers model that hold the cache of attention.

    transformers 5.24 renamed it.
    """
    return "cache" if "cache" in forward_parameters(model) else "past_key_values"


def check_range(tensors: Mapping[str, torch.Tensor], dtype: str) -> None:
    """Refuse weights that would become infinite in `dtype`."""
    largest = torch.finfo(getattr(torch, dtype)).max
    for name, tensor in tensors.items():
        if tensor.numel() and float(tensor.detach().abs().max()) > largest:
            raise UsageError(
                f"'{name}' has values beyond {largest:g}, which {dtype} cannot represent",
                where="--dtype",
                remedy="use bfloat16 or float32",
            )
