"""Learning-rate schedules: linear warm-up, then decay from the peak to the final rate."""

from dataclasses import dataclass
from math import cos, pi


def tenth(rate: float) -> float:
    """A tenth of a rate, as people write it.

    >>> tenth(3e-3), 3e-3 / 10
    (0.0003, 0.00030000000000000003)
    """
    return float(f"{rate / 10:.15g}")


@dataclass(frozen=True)
class Schedule:
    """The learning rate of every step of a run, or of a stage that has a schedule of its own.

    Attributes:
        kind: "cosine"; "linear"; "wsd" (warm-up, stable, decay: linear over the last `decay`
            steps); or "constant".
        peak, final: learning rate after the warm-up, and after the end.
        warmup: number of warm-up steps.
        decay: number of steps of the decay of "wsd".
        end: last step of the decay.
        start, reached: the step before its first, and the rate there, where a warm-up begins.
    """

    kind: str
    peak: float
    final: float
    warmup: int
    decay: int
    end: int
    start: int = 0
    reached: float = 0.0

    def rate(self, step: int) -> float:
        """Learning rate of a step (1 …).

        >>> schedule = Schedule("cosine", 1.0, 0.1, 10, 0, 110)
        >>> schedule.rate(5), schedule.rate(10), round(schedule.rate(60), 9), schedule.rate(500)
        (0.5, 1.0, 0.55, 0.1)
        """
        if step <= self.start + self.warmup:
            rise = self.peak - self.reached
            return self.reached + rise * (step - self.start) / self.warmup
        start = self.start + self.warmup
        if self.kind == "wsd":
            start = max(start, self.end - self.decay)
        if self.kind == "constant" or step <= start:
            return self.peak
        if step >= self.end:
            return self.final
        done = (step - start) / (self.end - start)
        if self.kind in ("linear", "wsd"):
            return self.peak + (self.final - self.peak) * done
        return self.final + (self.peak - self.final) * (1 + cos(pi * done)) / 2
