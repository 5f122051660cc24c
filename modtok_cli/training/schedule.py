"""Learning-rate schedules: linear warm-up, then decay from the peak to the final rate."""

from dataclasses import dataclass
from math import cos, pi

SCHEDULES = ("cosine", "linear", "wsd", "constant")


@dataclass(frozen=True)
class Schedule:
    """The learning rate of every step of a run, or of a stage that has a schedule of its own.

    Attributes:
        kind: "cosine"; "linear"; "wsd" (warm-up, stable, decay: linear over the last `decay`
            steps); or "constant".
        peak, final: learning rate after the warm-up, and after the end.
        warmup: number of warm-up steps.
        decay: number of steps of the decay of "wsd".
        ends: ((first step, last step of the schedule), …). One entry for a run whose schedule
            never changed. A resumed run with another length adds an entry: from its first step
            on, the rate decays from the rate that the schedule had reached, so that it is
            continuous.
        start, reached: the step before its first, and the rate there, where a warm-up begins.
    """

    kind: str
    peak: float
    final: float
    warmup: int
    decay: int
    ends: tuple[tuple[int, int], ...]
    start: int = 0
    reached: float = 0.0

    def rate(self, step: int) -> float:
        """Learning rate of a step (1 …).

        >>> schedule = Schedule("cosine", 1.0, 0.1, 10, 0, ((1, 110),))
        >>> schedule.rate(5), schedule.rate(10), round(schedule.rate(60), 9), schedule.rate(500)
        (0.5, 1.0, 0.55, 0.1)
        """
        if step <= self.start + self.warmup:
            rise = self.peak - self.reached
            return self.reached + rise * (step - self.start) / self.warmup
        start, rate = self.start + self.warmup, self.peak
        for (_, end), following in zip(self.ends, [*self.ends[1:], None], strict=True):
            if following is None or step < following[0]:
                return self._decayed(step, start, rate, end)
            # The last step before the change, from which the next piece decays.
            seam = max(following[0] - 1, start)
            start, rate = seam, self._decayed(seam, start, rate, end)
        raise AssertionError("unreachable")

    def _decayed(self, step: int, start: int, rate: float, end: int) -> float:
        """Rate at `step` of a decay that has `rate` at `start` and `final` at `end`."""
        if self.kind == "wsd":
            start = max(start, end - self.decay)
        if self.kind == "constant" or step <= start:
            return rate
        if step >= end:
            return self.final
        done = (step - start) / (end - start)
        if self.kind in ("linear", "wsd"):
            return rate + (self.final - rate) * done
        return self.final + (rate - self.final) * (1 + cos(pi * done)) / 2
