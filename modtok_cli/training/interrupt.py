"""Stop a run on SIGTERM, SIGUSR1 or SIGINT at the end of a step, on all ranks together."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

import torch
import torch.distributed as dist

from modtok_cli.base.errors import Stopped
from modtok_cli.training.distributed.ranks import Ranks

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)


class StopSignals:
    """Context in which the first of SIGNALS is only noted; a second one stops at once.

    Attributes:
        received: the signal that was received, 0 if none.
    """

    def __init__(self) -> None:
        self.received = 0
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._previous = {each: signal.signal(each, self._note) for each in SIGNALS}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    def _restore(self) -> None:
        for each, handler in self._previous.items():
            signal.signal(each, handler)
        self._previous = {}

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.received:
            self.received = number
            return
        self._restore()
        signal.raise_signal(number)

    def agreed(self, ranks: Ranks) -> int:
        """The signal to stop for, the same on all ranks; 0 to continue. A collective."""
        if ranks.world == 1:
            return self.received
        found = torch.tensor([self.received], device=ranks.device)
        dist.all_reduce(found, op=dist.ReduceOp.MAX)
        return int(found)


def stopped(number: int, step: int, command: str) -> Stopped:
    """The error that ends a run whose state after `step` is saved."""
    name = signal.Signals(number).name
    return Stopped(
        f"stopped by {name} after step {step:,}", number, remedy=f"resume with {command}"
    )
