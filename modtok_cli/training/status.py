"""The status of a run in one line."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

# Steps that rates are averaged over.
_WINDOW = 100


class Status:
    """Progress, loss, learning rate, throughput and remaining time of a run.

    Throughput and model FLOP utilization are means over the training time of the last 100 steps;
    the remaining time includes evaluations and checkpoints.
    """

    def __init__(self, steps: int, step_tokens: int) -> None:
        self._steps, self._step_tokens = steps, step_tokens
        self._recent: deque[tuple[int, float, Mapping[str, Any]]] = deque(maxlen=_WINDOW + 1)
        self._line: Mapping[str, Any] = {}

    def add(self, line: Mapping[str, Any], now: float) -> None:
        """Add the metrics of a step that ended at `now` (seconds of any clock)."""
        self._line = line
        self._recent.append((line["step"], now, line["time"]))

    def __str__(self) -> str:
        """The line, such as "loss 3.214, lr 2.90e-03, 12,345 tokens/s, MFU 41.2%"."""
        times = [time for _, _, time in self._recent]
        seconds = sum(time["step_seconds"] for time in times)
        parts = [f"loss {self._line['loss']:.3f}", f"lr {self._line['lr']:.2e}"]
        if seconds:
            parts.append(f"{len(times) * self._step_tokens / seconds:,.0f} tokens/s")
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
        if step > first:
            text += f", {_clock((now - then) / (step - first) * (self._steps - step))} left"
        return text


def _clock(seconds: float) -> str:
    """Hours, minutes and seconds.

    >>> _clock(93784.2)
    '26:03:04'
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"
