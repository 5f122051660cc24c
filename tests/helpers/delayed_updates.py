"""Delayed updates in the simplest form, and a hook that delays the pipeline at random.

One thread, rows on the device, each update a step late: step t computes with tables that lack the
update of step t - 1, which is applied after it. The pipeline of `offload` must equal this bit for
bit.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from modtok_cli.training.model.model import Model


class LateModel(Model):
    """`Model` whose rows are updated one step late."""

    held: tuple[Any, float] | None = None

    def update(self, unions: Any, rate: float, dense: bool, finite: torch.Tensor) -> None:
        held, self.held = self.held, (unions, rate)
        if held is not None:
            super().update(*held, dense, finite)

    def finish(self) -> None:
        """Apply the update that is held back."""
        if self.held is not None:
            super().update(*self.held, False, torch.tensor(True))
            self.held = None


def sleeper(seed: int) -> Callable[[str], None]:
    """A hook for `OffloadedRows`: sleeps for 0 to 6 ms, by the seed and the order of calls."""
    rng, lock = random.Random(seed), threading.Lock()

    def hook(point: str) -> None:
        with lock:
            seconds = rng.choice([0, 0, 0.0003, 0.002, 0.006])
        if seconds:
            time.sleep(seconds)

    return hook
