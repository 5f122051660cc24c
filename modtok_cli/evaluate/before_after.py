"""`--report` of slice and transplant: what a model's new vocabulary costs, on text."""

from collections.abc import Sequence
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import torch

from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.bits import BitsSettings, Measured, documents_of, measure_directory
from modtok_cli.evaluate.results import data_digest, interval, resampled_sums
from modtok_cli.inference.hf.causal_lm import CausalLM
from modtok_cli.measure.texts import Text


def compare(
    before: Path,
    after: Path,
    texts: Sequence[Text],
    *,
    batch_size: int = 8,
    dtype: torch.dtype | None = None,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Measure two directories on the same texts, one in memory at a time.

    Returns:
        A row per text and language: rows, weight_bytes, tokens, tokens_per_byte and bits_per_byte
        of `after`, the same of `before` with the prefix full_; change, the difference of bits per
        byte, with its 95% bootstrap interval over documents (low, high; None for a single
        document); documents, bytes, and the digest of the text.
    """
    settings = BitsSettings(batch_size=batch_size)
    sides: list[tuple[int, int, list[Measured]]] = []
    for path in (before, after):
        model = CausalLM(path, dtype=dtype)
        _, measured = measure_directory(model, texts, settings, progress)
        sides.append((model.rows, model.weight_bytes, measured))
        del model
    (full_rows, full_bytes, olds), (rows, weight_bytes, news) = sides
    return [
        {
            **_row(text, old, new),
            "rows": rows,
            "full_rows": full_rows,
            "weight_bytes": weight_bytes,
            "full_weight_bytes": full_bytes,
            "model": str(after),
            "full_model": str(before),
        }
        for text, old, new in zip(texts, olds, news, strict=True)
    ]


def _row(text: Text, old: Measured, new: Measured) -> dict[str, Any]:
    documents = documents_of(text, None)
    sizes = np.array([len(document.encode()) for document in documents], dtype=np.float64)
    total = sizes.sum()
    (full_nats, full_tokens), (nats, tokens) = old, new
    difference = (nats - full_nats) / log(2)
    low = high = None
    if len(documents) > 1:
        sums = resampled_sums(np.stack([difference, sizes], axis=1))
        low, high = interval(sums[:, 0] / sums[:, 1])
    return {
        "text": text.name,
        "language": text.language,
        "tokens": int(tokens.sum()),
        "full_tokens": int(full_tokens.sum()),
        "tokens_per_byte": float(tokens.sum() / total),
        "full_tokens_per_byte": float(full_tokens.sum() / total),
        "bits_per_byte": float(nats.sum() / log(2) / total),
        "full_bits_per_byte": float(full_nats.sum() / log(2) / total),
        "change": float(difference.sum() / total),
        "low": low,
        "high": high,
        "documents": len(documents),
        "bytes": int(total),
        "data": data_digest(documents),
    }
