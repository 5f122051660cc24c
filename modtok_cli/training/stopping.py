"""Signals that stop a run at the end of a step."""

from __future__ import annotations

import shlex
import signal
from contextlib import ExitStack
from types import FrameType

import torch
import torch.distributed as dist

from modtok_cli.base.errors import Stopped
from modtok_cli.training.distributed.launch import handling
from modtok_cli.training.model.phases import Pace
from modtok_cli.training.run import Run
from modtok_cli.training.settings import OPTIONS


class StopSignals:
    """Context in which the first of `launch.SIGNALS` is only noted; a second one stops at once.

    A terminal that is closed sends SIGHUP more than once.

    A run stops at the end of a step, on all ranks together.

    Attributes:
        received: the signal that was received, 0 if none.
    """

    def __init__(self, run: Run) -> None:
        self.received = 0
        self._run, self._handling = run, ExitStack()

    def __enter__(self) -> StopSignals:
        self._handling.enter_context(handling(self._note))
        return self

    def __exit__(self, *_: object) -> None:
        self._handling.close()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.received or number == signal.SIGHUP:
            self.received = self.received or number
            return
        self._handling.close()
        signal.raise_signal(number)

    def agreed(self, pace: Pace) -> int:
        """The signal to stop for, the same on all ranks; 0 to continue. A collective.

        `pace` learns what it wants to know of the others.
        """
        ranks = self._run.ranks
        if ranks.world == 1:
            return self.received
        largest = torch.tensor([self.received, *pace.numbers()])
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=ranks.hosts)
        received, *others = largest.tolist()
        pace.learn(others)
        return int(received)

    def stopped(self, number: int, step: int) -> Stopped:
        """The error that ends a run whose state after `step` is saved."""
        run = self._run
        words = ["modtok", "pretrain", "--resume", "--name", run.directory.path.name]
        if run.config.runs != OPTIONS["runs"].default:
            words += ["--runs", str(run.config.runs)]
        return Stopped(
            f"stopped by {signal.Signals(number).name} after step {step:,}",
            number,
            remedy=f"resume with {shlex.join(words)}",
        )
