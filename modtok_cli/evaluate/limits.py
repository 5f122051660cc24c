"""Check that a batch fits into memory before it is run."""

from __future__ import annotations

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.memory import check_memory
from modtok_cli.inference.model import SlicedModel

_REMEDY = "lower --batch-size"


def batch_bytes(model: SlicedModel, sequences: int, tokens: int) -> int:
    """Estimated bytes of a batch: keys and values of all layers twice, activations of one layer.

    The cache counts twice because scoring copies that of a shared prefix.
    """
    config = model.backbone.config
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache = 2 * config.num_hidden_layers * heads * width
    activations = 4 * config.hidden_size + 2 * config.intermediate_size
    return int(sequences * tokens * (2 * cache + activations) * model.dtype.itemsize)


def check_batch(model: SlicedModel, sequences: int, tokens: int) -> None:
    """Check a batch of `sequences` × `tokens` against the free memory of the model's device.

    Raises:
        ModtokError: it does not fit.
    """
    need = batch_bytes(model, sequences, tokens)
    work = f"a batch of {sequences:,} sequences of {tokens:,} tokens"
    if model.device.type != "cuda":
        check_memory(need, work, _REMEDY)
        return
    free, _ = torch.cuda.mem_get_info(model.device)
    if need > free:
        raise ModtokError(
            f"{work} needs about {need / 2**30:.1f} GiB of GPU memory, {free / 2**30:.1f} GiB are "
            "free",
            remedy=_REMEDY,
        )
