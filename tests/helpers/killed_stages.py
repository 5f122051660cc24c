"""Steps of a build at which something is killed, so that a test need not hit the moment."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from modtok_cli.corpus.build_plan import BuildPlan
from modtok_cli.corpus.executors import BuildStage


class Deadly:
    """The last step of a stage's tasks: rank 0 kills `victim`, the others pass.

    `victim` 0: its own process. Otherwise that process; then the task stays on for as long
    as it is let, as one that still had work to do.
    """

    def __init__(self, victim: int, sign: int) -> None:
        self.victim = victim
        self.sign = sign

    def __call__(self, data: Any, rank: int = 0, world_size: int = 1) -> Iterator[Any]:
        yield from data or ()
        if rank == 0:
            os.kill(self.victim or os.getpid(), self.sign)
            time.sleep(600)


def deadly(
    real: Callable[..., list[BuildStage]],
    stage: str,
    victim: int = 0,
    sign: int = signal.SIGKILL,
) -> Callable[..., list[BuildStage]]:
    """`stages_of`, with a kill at the end of the first task of `stage`."""

    def stages_of(plan: BuildPlan, force: bool = False) -> list[BuildStage]:
        return [
            replace(each, blocks=[*each.blocks, Deadly(victim, sign)])
            if each.name == stage
            else each
            for each in real(plan, force)
        ]

    return stages_of


def script(stage: str, sign: int, call: str) -> str:
    """A program that makes `call` and is sent `sign` from within `stage`, by one of its tasks."""
    return (
        "import os\n"
        "from pathlib import Path\n"
        "from helpers.killed_stages import deadly\n"
        "from modtok_cli.corpus import build\n"
        f"build.stages_of = deadly(build.stages_of, {stage!r}, os.getpid(), {int(sign)})\n"
        f"{call}\n"
    )
