"""One rank of a rehearsal: trains combinations one after the other.

    python -m benchmarks.gpu.rehearsal.rank WORK [--cpu | --mistake NAME] < names of combinations

Rank 0 prints a JSON line for each. The first failure ends the process.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.gpu.rehearsal.combinations import (
    STEPS,
    STOP_AFTER,
    Combination,
    combinations,
    prepare,
)


class Steps:
    """Replaces start and end of a training step: counts what it costs, and can stop after one."""

    def __init__(self) -> None:
        from modtok_cli.training import loop

        self._step, self.stops = loop.train_step, False
        self.counts: dict[str, Counter[str]] = {}
        loop.train_step = self

    def __call__(self, stage: Any, model: Any, feed: Any, step: int) -> Any:
        finish = self._counted(step, lambda: self._step(stage, model, feed, step))
        if self.stops and step == STOP_AFTER and stage.run.ranks.first:
            signal.raise_signal(signal.SIGUSR1)
        return lambda before: self._counted(step, lambda: finish(before))

    def _counted(self, step: int, call: Callable[[], Any]) -> Any:
        from benchmarks.gpu.rehearsal.device import COUNTS

        before = {what: counts.copy() for what, counts in COUNTS.items()}
        result = call()
        if step > 1:  # the first also sets things up
            for what, counts in COUNTS.items():
                self.counts.setdefault(what, Counter()).update(counts - before[what])
        return result


def rehearse(one: Combination, work: Path, steps: Steps) -> dict[str, Any]:
    """A whole run, one that is stopped, and one that continues it."""
    from modtok_cli.base.errors import Stopped, UsageError
    from modtok_cli.training.loop import pretrain

    runs = work / "runs" / one.name
    steps.counts, steps.stops = {}, False
    try:
        pretrain(one.settings(work, runs, "whole"), force=True)
    except UsageError as error:
        return {"refused": str(error)}
    each = STEPS - 1
    row: dict[str, Any] = {
        what: round(sum(counts.values()) / each, 1) for what, counts in steps.counts.items()
    }
    row["lines"] = {
        what: {line: round(count / each, 1) for line, count in counts.most_common()}
        for what, counts in steps.counts.items()
    }
    steps.stops = True
    try:
        pretrain(one.settings(work, runs, "stopped"), force=True)
        raise RuntimeError("a run was not stopped by SIGUSR1")
    except Stopped:
        steps.stops = False
    pretrain(one.settings(work, runs, "stopped"), resume=True)
    here = int(os.environ["LOCAL_RANK"])
    contexts = ctypes.CDLL(None).rehearsal_contexts()
    if contexts != 1 << here:
        others = [index for index in range(32) if contexts >> index & 1 and index != here]
        raise RuntimeError(f"rank {here} opened a context on GPU {others[0]}")
    return row


def train_on_cpu(one: Combination, work: Path) -> dict[str, Any]:
    from modtok_cli.base.errors import UsageError
    from modtok_cli.training.loop import pretrain

    try:
        pretrain(one.settings(work, work / "twins" / one.name, "whole"), force=True)
    except UsageError as error:
        return {"refused": str(error)}
    return {}


def main() -> None:
    work, options = Path(sys.argv[1]), sys.argv[2:]
    names = sys.stdin.read().split("\n")
    chosen = [one for one in combinations() if one.name in names]
    chosen += [one.twin for one in combinations() if one.twin.name in names and one not in chosen]
    if options[:1] == ["--mistake"]:
        from benchmarks.gpu.rehearsal.mistakes import MISTAKES

        MISTAKES[options[1]][0]()
    steps = None if options[:1] == ["--cpu"] else Steps()
    try:
        if not (work / "runs" / "first").exists():
            prepare(work)
        for one in dict.fromkeys(chosen):
            row = train_on_cpu(one, work) if steps is None else rehearse(one, work, steps)
            if os.environ["LOCAL_RANK"] == "0":
                print(json.dumps({"name": one.name, **row}), flush=True)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # the others may wait for this rank
    os._exit(0)


if __name__ == "__main__":
    main()
