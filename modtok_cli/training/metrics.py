"""Metrics of a step: losses by language, speed, device utilization; loss spikes, the status line.

A line of `metrics.jsonl` repeats bit for bit in a resumed run, except for "time". Bits per
byte do not depend on the vocabulary: nats of the text tokens / ln 2 / bytes of the text.
End-of-text tokens count in the loss, not in bits per byte.
"""

from collections import Counter, deque
from collections.abc import Container, Mapping, Sequence
from math import isnan, log
from time import perf_counter
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from modtok_cli.training.data.sampling import Draw, Mixture
from modtok_cli.training.distributed.ranks import Ranks, summed

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
HELD_OUT = "held-out"
"""Name of the held-out text, beside the names of --valid."""

WINDOW = 500
"""Number of steps that a loss is compared with."""

_LEAST = 20
_FACTOR = 6.0
# A standard deviation of a normal distribution is 1.4826 median absolute deviations, and its 95%
# quantile is 1.645 of them above the median.
_DEVIATION, _TO_95 = 1.4826, 1.645
_SMALLEST = 0.01
# Steps that rates of the status are averaged over.
_RECENT = 100


class LanguageSums:
    """Sums over text tokens by language (nats, tokens, bytes), and the total loss."""

    def __init__(self, languages: Sequence[str], device: torch.device) -> None:
        self.languages = tuple(languages)
        self._sums = torch.zeros(len(languages), 3, dtype=torch.float64, device=device)
        self._loss = torch.zeros(2, dtype=torch.float64, device=device)

    def add(
        self,
        language: str,
        nll: torch.Tensor,
        counted: torch.Tensor,
        size: int,
        trained: torch.Tensor,
    ) -> None:
        """Add tokens of a language; `counted` marks text tokens, which have `size` bytes.

        `trained` marks tokens that are in the loss.
        """
        nats = nll.double()
        row = self._sums[self.languages.index(language)]
        row[0] += nats.where(counted, 0).sum()
        row[1] += counted.sum()
        row[2] += size
        self._loss[0] += nats.where(trained, 0).sum()
        self._loss[1] += trained.sum()

    def over_replicas(self, ranks: Ranks) -> torch.Tensor:
        """The sums over all ranks as a vector on the device, for `figures`.

        Every shard of a replica adds the same, so the sums are divided by their number.
        """
        sums = torch.cat([self._sums.flatten(), self._loss])
        return summed(sums, dist.group.WORLD if ranks.world > 1 else None) / ranks.shards

    def figures(
        self, sums: Sequence[float], unmeasured: Container[str] = ()
    ) -> tuple[float, dict[str, dict[str, Any]]]:
        """Mean loss in nats per token, and figures by language, of what `over_replicas` returns.

        Bits per byte of the languages `unmeasured` are None.
        """
        *parts, all_nats, all_tokens = sums
        loss = all_nats / all_tokens if all_tokens else float("nan")
        by_language = {}
        columns = parts[::3], parts[1::3], parts[2::3]
        for language, nats, tokens, size in zip(self.languages, *columns, strict=True):
            if tokens and size:
                by_language[language] = {
                    "nats_per_token": nats / tokens,
                    "bits_per_byte": None if language in unmeasured else nats / log(2) / size,
                    "tokens": int(tokens),
                    "bytes": int(size),
                }
        return loss, by_language


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


def mean_bits(languages: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Mean of bits per byte over the languages that have them, unweighted."""
    values = [bits for each in languages.values() if (bits := each["bits_per_byte"]) is not None]
    return sum(values) / len(values) if values else None


def timing(
    *, seconds: float, tokens: int, flops: float, peak: float | None, world: int
) -> dict[str, Any]:
    """The part of a metrics line that differs between runs."""
    return {
        "step_seconds": round(seconds, 4),
        "tokens_per_second": round(tokens / seconds, 1) if seconds else 0.0,
        "model_flops_per_second": round(flops / seconds) if seconds else 0,
        "mfu": round(flops / seconds / (peak * world), 4) if peak and seconds else None,
    }


class Drawn:
    """Counts how often each text was drawn in a stage; all draws stand for as many sequences."""

    def __init__(self) -> None:
        self._stage = 0
        self._draws: Counter[str] = Counter()

    def add(self, line: Mapping[str, Any]) -> None:
        """Add a step's line of metrics."""
        if line["stage"] != self._stage:
            self._stage, self._draws = line["stage"], Counter()
        self._draws.update(Draw.parse(draw).text for draw in line["draws"])

    def shares(self, mixture: Mixture) -> dict[str, dict[str, float]]:
        """Text → its share as planned, and as seen."""
        whole = max(1, self._draws.total())
        return {
            name: {"planned": round(share, 6), "seen": round(self._draws[name] / whole, 6)}
            for name, share in mixture.of_texts().items()
        }


class SpikeDetector:
    """Compares the losses of a step with the last `WINDOW` steps, by language.

    The loss of a language, in nats per token, is a spike if it exceeds m + 6 · s, where m is
    the median of the language's losses in the window, and s the largest of their median absolute
    deviation · 1.4826, (q - m) / 1.645 with their 95% quantile q, and m / 100. The first two are
    the standard deviation of normal losses; q is for text of two kinds, such as translations among
    others. A few spikes do not move them. Languages differ in their losses, so each has its own
    window; with fewer than 20 losses there is no spike. A stage begins new windows.
    """

    def __init__(self) -> None:
        self._stage = 0
        self._losses: dict[str, deque[tuple[int, float]]] = {}

    def add(self, line: Mapping[str, Any]) -> dict[str, dict[str, float]]:
        """Add a step's line of metrics: its spikes by language, with loss, median and limit."""
        spikes = {}
        if line["stage"] != self._stage:
            self._stage, self._losses = line["stage"], {}
        for language, figures in line["languages"].items():
            loss = float(figures["nats_per_token"])
            losses = self._losses.setdefault(language, deque())
            while losses and losses[0][0] < line["step"] - WINDOW:
                losses.popleft()
            if len(losses) >= _LEAST:
                values = np.array([value for _, value in losses])
                median, high = map(float, np.quantile(values, (0.5, 0.95)))
                spread = _DEVIATION * float(np.median(np.abs(values - median)))
                spread = max(spread, (high - median) / _TO_95, _SMALLEST * median)
                limit = median + _FACTOR * spread
                if loss > limit:
                    spikes[language] = {"loss": loss, "median": median, "limit": limit}
            losses.append((line["step"], loss))
        return spikes


class Status:
    """Progress, loss, learning rate, throughput and remaining time of a run, in one line.

    Throughput and model FLOP utilization are means over the training time of the last 100 steps;
    the remaining time includes evaluations and checkpoints.
    """

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._recent: deque[tuple[int, float, Mapping[str, Any]]] = deque(maxlen=_RECENT + 1)
        self._line: Mapping[str, Any] = {}

    def add(self, line: Mapping[str, Any], now: float) -> None:
        """Add the metrics of a step that ended at `now` (seconds of any clock)."""
        self._line = line
        self._recent.append((line["step"], now, line["time"]))

    def __str__(self) -> str:
        """The line, such as "loss 3.214, lr 2.90e-03, 12,345 tokens/s, MFU 41.2%"."""
        times = [time for _, _, time in self._recent]
        seconds = sum(time["step_seconds"] for time in times)
        loss = self._line["loss"]
        # A step of conversations may be within long prompts.
        what = "no token in the loss" if isnan(loss) else f"loss {loss:.3f}"
        parts = [what, f"lr {self._line['lr']:.2e}"]
        if seconds:
            tokens = sum(time["tokens_per_second"] * time["step_seconds"] for time in times)
            parts.append(f"{tokens / seconds:,.0f} tokens/s")
        if seconds and all(time["mfu"] is not None for time in times):
            mfu = sum(time["mfu"] * time["step_seconds"] for time in times) / seconds
            parts.append(f"MFU {mfu:.1%}")
        return ", ".join(parts)

    @property
    def with_progress(self) -> str:
        """The line with step and remaining time, where no progress bar shows them."""
        step, now, _ = self._recent[-1]
        text = f"step {step:,}/{self._steps:,}, {self}"
        first, then, _ = self._recent[0]
        rate = (now - then) / (step - first) if step > first else 0.0
        if left := round(rate * (self._steps - step)):  # not "0:00:00" of quick or last steps
            text += f", {left // 3600}:{left // 60 % 60:02}:{left % 60:02} left"
        return text
