"""Stop a run on SIGTERM, SIGUSR1 or SIGINT at the end of a step, on all ranks together."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from types import FrameType

import torch
import torch.distributed as dist

from modtok_cli.base.errors import Stopped
from modtok_cli.training.distributed.launch import handling
from modtok_cli.training.distributed.ranks import Ranks


class StopSignals:
    """Context in which the first of `launch.SIGNALS` is only noted; a second one stops at once.

    Attributes:
        received: the signal that was received, 0 if none.
    """

    def __init__(self) -> None:
        self.received = 0
        self._handling = ExitStack()

    def __enter__(self) -> StopSignals:
        self._handling.enter_context(handling(self._note))
        return self

    def __exit__(self, *_: object) -> None:
        self._handling.close()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.received:
            self.received = number
            return
        self._handling.close()
        signal.raise_signal(number)

    def agreed(self, ranks: Ranks) -> int:
        """The signal to stop for, the same on all ranks; 0 to continue. A collective."""
        if ranks.world == 1:
            return self.received
        received = torch.tensor([self.received], device=ranks.device)
        dist.all_reduce(received, op=dist.ReduceOp.MAX)
        return int(received)


def stopped(number: int, step: int, command: str) -> Stopped:
    """The error that ends a run whose state after `step` is saved."""
    name = signal.Signals(number).name
    return Stopped(
        f"stopped by {name} after step {step:,}", number, remedy=f"resume with {command}"
    )
