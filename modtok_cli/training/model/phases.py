"""Times of the phases of a step, measured without waiting for a device, and the slowest rank."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from modtok_cli.base.memory import peak_bytes
from modtok_cli.training.distributed.ranks import Ranks

PHASES = {
    "wait": "wait for text",
    "gather": "gather of rows",
    "forward": "forward and loss",
    "backward": "backward",
    "exchange": "exchange of gradients",
    "update": "update",
}
"""Phases of a step and their titles. The loss also computes the gradients of the output rows."""

Mark = tuple[str, Any]
# In the others a rank may wait for slower ones.
_ALONE = ("wait", "forward", "backward", "update")


class Phases:
    """Seconds by phase of what one thread issues.

    On a GPU an event is recorded where a phase begins, and read when the device has passed it:
    seconds are the device's, and count when their phase has ended.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._marks: list[Mark] = []
        self._unread: deque[Mark] = deque()

    def begin(self, phase: str) -> None:
        """Count operations from now on to `phase`."""
        mark: Any = time.perf_counter()
        if self._on_gpu:
            cuda: Any = torch.cuda
            mark = cuda.Event(enable_timing=True)
            mark.record()
        self._marks.append((phase, mark))

    def end(self) -> list[Mark]:
        """Count operations from now on to no step; the marks of this one."""
        self.begin("")
        marks, self._marks = self._marks, []
        return marks

    def read(self, marks: Sequence[Mark]) -> dict[str, float]:
        """Seconds by phase of a step's `marks`, and of earlier ones that had not ended."""
        seconds = dict.fromkeys(PHASES, 0.0)
        self._unread.extend(marks)
        while len(self._unread) > 1:
            (phase, start), (_, end) = self._unread[0], self._unread[1]
            if self._on_gpu and not end.query():
                break
            if phase:
                seconds[phase] += start.elapsed_time(end) / 1000 if self._on_gpu else end - start
            self._unread.popleft()
        return {name: round(value, 6) for name, value in seconds.items()}


class Pace:
    """Peak of memory, and the slowest rank of a step; `numbers` travel with a collective of hosts.

    A rank counts the seconds in which it does not wait for others.
    """

    def __init__(self, ranks: Ranks) -> None:
        self._ranks, self._own = ranks, 0.0
        self._largest: Sequence[int] = ()

    def add(self, phases: Mapping[str, float]) -> dict[str, Any]:
        """Add a step of this rank. Facts: `peak_bytes`, and of the last `learn`, the `slowest` rank
        and its seconds beyond the fastest.
        """
        self._own = sum(phases[name] for name in _ALONE)
        if not self._largest:
            return {"peak_bytes": self._peak()}
        slowest, fastest, peak = self._largest
        most, rank = divmod(slowest, self._ranks.world)
        slow = {"rank": rank, "seconds": round((most + fastest) / 1e6, 6)}
        return {"peak_bytes": peak, "slowest": slow}

    def numbers(self) -> list[int]:
        """Whose largest values over all ranks are to be learned."""
        micros = round(self._own * 1e6)
        return [micros * self._ranks.world + self._ranks.rank, -micros, self._peak()]

    def learn(self, largest: Sequence[int]) -> None:
        """The largest `numbers` of all ranks; before a step has been added they say nothing."""
        self._largest = largest if self._own else ()

    def _peak(self) -> int:
        device = self._ranks.device
        return torch.cuda.max_memory_allocated(device) if device.type == "cuda" else peak_bytes()


class Spending:
    """Sums of what the lines of steps say of `phases`, peak and slowest rank.

    Not of the first step of a process, which compiles kernels and starts workers.
    """

    def __init__(self) -> None:
        self._steps = 0
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self._behind: dict[int, float] = {}
        self._peak = 0

    def add(self, times: Mapping[str, Any]) -> None:
        """Add "time" of a step."""
        self._steps += 1
        self._peak = max(self._peak, times["peak_bytes"])
        if self._steps == 1:
            return
        for name, seconds in times["phases"].items():
            self._seconds[name] += seconds
        if slowest := times.get("slowest"):
            rank = slowest["rank"]
            self._behind[rank] = self._behind.get(rank, 0.0) + slowest["seconds"]

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return any(self._seconds.values())

    def __str__(self) -> str:
        """A sentence, such as "a step takes 0.5 s: backward 60%, forward and loss 40%; …"."""
        whole = sum(self._seconds.values())
        parts = sorted(self._seconds.items(), key=lambda each: -each[1])
        shares = ", ".join(
            f"{PHASES[name]} {seconds / whole:.0%}" for name, seconds in parts if seconds
        )
        text = f"a step takes {whole / (self._steps - 1):.3g} s: {shares}"
        text += f"; peak of memory {self._peak / 2**30:.1f} GiB"
        if self._behind:
            rank = max(self._behind, key=self._behind.__getitem__)
            behind = self._behind[rank] / whole
            text += f"; rank {rank} is the slowest, by {behind:.1%} of the time"
        return text
