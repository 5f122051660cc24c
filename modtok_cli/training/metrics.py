"""Metrics of a step: losses by language, speed, device utilization.

A line of `metrics.jsonl` repeats bit for bit in a resumed run, except for "time". Bits per
byte do not depend on the vocabulary: nats of the text tokens / ln 2 / bytes of the text.
End-of-text tokens count in the loss, not in bits per byte.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from time import perf_counter
from typing import Any

import torch

from modtok_cli.training.data.slot_packer import Batch
from modtok_cli.training.distributed.ranks import Ranks
from modtok_cli.training.model.optimizer import sum_over_ranks

# Dense bfloat16 FLOP/s by data sheet; the first name that the device's contains counts.
PEAKS = {
    "H100 PCIe": 756e12,
    "H100 NVL": 835e12,
    "H200": 989e12,
    "H100": 989e12,
    "H800": 989e12,
    "B200": 2250e12,
    "A100": 312e12,
    "A800": 312e12,
    "L40S": 362e12,
    "MI300X": 1307e12,
    "MI250X": 383e12,
}


class LanguageSums:
    """Sums over text tokens by language (nats, tokens, bytes), and the total loss."""

    def __init__(self, languages: Sequence[str], device: torch.device) -> None:
        self.languages = tuple(languages)
        self._sums = torch.zeros(len(languages), 3, dtype=torch.float64, device=device)
        self._loss = torch.zeros(2, dtype=torch.float64, device=device)

    def add(self, batch: Batch, nll: torch.Tensor) -> None:
        """Add a microbatch with the `nll` of its tokens."""
        targets = torch.from_numpy(batch.targets.ravel()).to(nll.device)
        self.add_tokens(batch.draw.language, nll, targets != batch.end_of_text, batch.bytes)

    def add_tokens(
        self, language: str, nll: torch.Tensor, counted: torch.Tensor, size: int
    ) -> None:
        """Add tokens of a language; `counted` marks text tokens, which have `size` bytes."""
        nats = nll.double()
        row = self._sums[self.languages.index(language)]
        row[0] += nats[counted].sum()
        row[1] += counted.sum()
        row[2] += size
        self._loss[0] += nats.sum()
        self._loss[1] += len(nats)

    def over_replicas(self, ranks: Ranks) -> tuple[float, dict[str, dict[str, float]]]:
        """Mean loss in nats per token, and figures by language, over all ranks.

        Every shard of a replica adds the same, so the sums are divided by their number.
        """
        sums = sum_over_ranks(torch.cat([self._sums.flatten(), self._loss])) / ranks.shards
        loss = float(sums[-2] / sums[-1]) if sums[-1] else float("nan")
        found = {}
        for language, (nats, tokens, size) in zip(
            self.languages, sums[:-2].reshape(-1, 3).tolist(), strict=True
        ):
            if tokens and size:
                found[language] = {
                    "nats_per_token": nats / tokens,
                    "bits_per_byte": nats / log(2) / size,
                    "tokens": int(tokens),
                    "bytes": int(size),
                }
        return loss, found


def peak_flops(device: torch.device, dtype: torch.dtype) -> float | None:
    """Peak FLOP/s of a GPU by its data sheet; None if it is not known, and on a CPU."""
    if device.type != "cuda" or dtype != torch.bfloat16:
        return None
    name = torch.cuda.get_device_name(device)
    return next((peak for key, peak in PEAKS.items() if key in name), None)


def measured_flops(dtype: torch.dtype) -> float:
    """FLOP/s of a matrix product on this CPU."""
    n = 512
    a = torch.ones(n, n, dtype=dtype)
    a @ a
    best = float("inf")
    for _ in range(3):
        started = perf_counter()
        a @ a
        best = min(best, perf_counter() - started)
    return 2 * n**3 / best


def mean_bits(languages: Mapping[str, Mapping[str, float]]) -> float | None:
    """Mean of bits per byte over languages, unweighted."""
    values = [figures["bits_per_byte"] for figures in languages.values()]
    return sum(values) / len(values) if values else None


def timing(
    *, seconds: float, waited: float, tokens: int, flops: float, peak: float | None, world: int
) -> dict[str, Any]:
    """The part of a metrics line that differs between runs."""
    return {
        "step_seconds": round(seconds, 4),
        "wait_share": round(waited / seconds, 4) if seconds else 0.0,
        "tokens_per_second": round(tokens / seconds, 1) if seconds else 0.0,
        "model_flops_per_second": round(flops / seconds) if seconds else 0,
        "mfu": round(flops / seconds / (peak * world), 4) if peak and seconds else None,
    }
