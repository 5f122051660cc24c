"""A slice of a run as transformers opens it, compared with the model that was trained."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from modtok_cli.base.arrays import Int32Array
from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.model.hf.model_check import difference, fits, outputs_of
from modtok_cli.model.slice.run_source import RunSource
from modtok_cli.model.vocabularies import Vocabularies

_TOKENS = (2, 12)  # sequences, and tokens of each
_TOLERANCE = 2e-3


def check_run_slice(
    source: RunSource,
    part: Path,
    vocabularies: Vocabularies,
    dtype: torch.dtype,
    *,
    progress: Progress = SILENT,
) -> None:
    """Compare the logits of `part` and of the run's own layers, of Megatron, in float32.

    Other programs compute what the names in its `config.json` say. A family of another package
    may name a class of transformers that computes something else.

    Models that do not fit in memory are not compared, nor any without Megatron: a note or a
    warning says so.

    Raises:
        ModtokError: logits differ, or transformers does not load the slice.
    """
    if str(part).encode(errors="ignore").decode() != str(part):
        return  # the library that transformers opens weights with takes no such path
    rows = np.random.default_rng(0).choice(len(vocabularies.ids), size=_TOKENS).astype(np.int32)
    stored = sum(file.stat().st_size for file in part.glob("*.safetensors"))
    if not fits(16 * stored // dtype.itemsize, progress):  # float32: weights, gradients, logits
        return
    expected = _trained_logits(source, vocabularies, rows, dtype)
    if expected is None:
        progress.note("logits are not compared: needs Megatron in a process of its own")
        return
    found, problems, reason = outputs_of(part, rows)
    wrong = reason or next(iter(problems or ()), "")
    if not wrong and "logits" in found:
        gap = difference(found["logits"], expected, _TOLERANCE)
        if gap is None:
            return
        wrong = f"its logits differ from the run's by up to {gap:.2g}"
    shape = source.shape
    raise ModtokError(
        f"as a {shape.hf_name} of transformers it differs from the trained model: {wrong}; the "
        "output was removed",
        where=source.path,
        remedy=f"correct what architecture '{shape.architecture}' says of transformers, or pass "
        "--no-verify",
    )


def _trained_logits(
    source: RunSource, vocabularies: Vocabularies, rows: Int32Array, dtype: torch.dtype
) -> np.ndarray | None:
    """Logits (B, S, V) by Megatron's layers with weights rounded to `dtype`; None without it."""
    from modtok_cli.training.distributed.ranks import start_ranks, stop_ranks
    from modtok_cli.training.model import megatron

    joined = dist.is_initialized()
    if int(os.environ.get("WORLD_SIZE") or 1) > 1 or (joined and dist.get_world_size() > 1):
        return None
    try:
        start_ranks()
        backbone = megatron.build_backbone(
            source.shape, shards=1, device=torch.device("cpu"), dtype=torch.float32, seed=0
        )
        embedding, head = (each.to(dtype).float() for each in source.tables(vocabularies))
        with torch.no_grad():
            for name, tensor in source.megatron_parameters().items():
                backbone.parameters[name].copy_(tensor.to(dtype))
            x_SBd = source.shape.scaled(embedding[torch.from_numpy(rows.T).long()])
            products = backbone(x_SBd).transpose(0, 1) @ head.T
            logits: np.ndarray = source.shape.logits(products).numpy()
    except ImportError:
        return None
    finally:
        if not joined:
            stop_ranks()
    return logits
