"""Work on batches, shared by processes, with the results of one process, to the bit.

Every process does everything except the batches of the others: it reads the same files, makes the
same batches, computes every N-th of them, and receives the results of all. So no batch changes,
and no file or result needs to be divided or merged. Processes come from `--gpus N`, torchrun or
srun.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from modtok_cli.base.progress import SILENT, Progress

if TYPE_CHECKING:
    import torch

    from modtok_cli.training.distributed.ranks import Ranks

Unit = TypeVar("Unit")
AGAIN = "run the command again"


class Processes:
    """The processes that share a command's work; by default this one only.

    Attributes:
        rank, count: number of this process, and of all.
        first: whether this process reports for all.
        device: the GPU of this process, or the CPU; None with one process, which may use any.
    """

    def __init__(self, ranks: Ranks | None = None, device: torch.device | None = None) -> None:
        self._ranks, self.device = ranks, device
        self.rank, self.count = (0, 1) if ranks is None else (ranks.rank, ranks.world)
        self.first = self.rank == 0

    def only_first(self, progress: Progress) -> Progress:
        """`progress`, which is silent on all processes but the first."""
        return progress if self.first else SILENT

    def map(
        self,
        work: Callable[[Unit], Any],
        units: Sequence[Unit],
        *,
        done: Callable[[Unit], None] = lambda unit: None,
    ) -> list[Any]:
        """`work` of each unit, in order: process r computes units r, r + N, r + 2N, … Collective.

        Results are JSON values; tuples may come back as lists. `done` is called with every unit.

        Example: `Processes().map(abs, [-1, 2])` is [1, 2].
        """
        own = []
        for place, unit in enumerate(units):
            if place % self.count == self.rank:
                own.append(work(unit))
            done(unit)
        if self.count == 1:
            return own
        parts = self.gather(own)
        return [parts[place % self.count][place // self.count] for place in range(len(units))]

    def gather(self, item: Any) -> list[Any]:
        """The items of all processes, in order. Collective."""
        if self._ranks is None:
            return [item]
        from modtok_cli.training.distributed.ranks import gather_json

        # Numbers that are not finite have no form in the JSON of `gather_json`.
        return [json.loads(text) for text in gather_json(self._ranks, json.dumps(item))]


ALONE = Processes()


@contextmanager
def joined() -> Iterator[Processes]:
    """The processes that torchrun's environment variables name, until the block ends.

    If one of them ends before, all end with an error that names it.
    """
    from modtok_cli.training.distributed.ranks import pick_device, start_equals, stop_ranks
    from modtok_cli.training.distributed.watchdog import Watchdog, end_process

    ranks = start_equals()
    try:
        # A batch may take any time: only processes that have ended are noticed.
        with Watchdog(ranks, inf, partial(end_process, remedy=AGAIN)):
            yield Processes(ranks, pick_device())
    finally:
        stop_ranks()
