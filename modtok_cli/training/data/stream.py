"""The batches of a rank's slots, tokenized ahead in worker processes.

The state of the stream is the positions of its packers after the last batch that was taken: a
few numbers per slot and language. Batches still in a queue are made again after a resume.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from queue import Queue
from threading import Thread

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.processes import starting_processes
from modtok_cli.training.data.slot_packer import Batch, SlotPacker, StreamPlan, StreamPosition

# Steps that a worker makes ahead: enough to ride out a slow document, small in memory.
AHEAD = 4
State = dict[int, dict[str, StreamPosition]]


SKIPPED = "skipped "
"""Before the name of a text: millionths of documents before a slot's position that it skipped."""


def positions_of(
    state: State, slots: int, length: Callable[[str, int], int] = lambda text, place: 0
) -> State:
    """Positions of a stage with `slots` slots, from the positions of all slots before it.

    Another number of slots divides the documents otherwise: all begin behind the last document
    of a text that any slot has begun. Documents before it that a slower slot has not read are
    left out of this epoch, and counted (`SKIPPED`).

    `length` gives the bytes of the document at a place of the order of a text, 0 if it is unknown.

    >>> positions_of({0: {"en:1": (4, 7)}, 1: {"en:1": (2, 0)}}, 3, lambda text, place: 14)[2]
    {'en:1': (4, 0), 'skipped en:1': (1833333, 0)}

    4.5 and 2 documents are read, of the 3 · 4 before the new positions.
    """
    if len(state) in (0, slots):
        return state
    begun: dict[str, int] = {}
    read: dict[str, float] = {}
    for slot, places in state.items():
        for text, (number, start) in places.items():
            if text.startswith(SKIPPED):
                continue
            begun[text] = max(begun.get(text, 0), number + (start > 0))
            whole = length(text, number * len(state) + slot) if start else 0
            part = start / whole if whole else 0.0
            read[text] = read.get(text, 0.0) + number + part - skipped(places, text)
    first: dict[str, StreamPosition] = {}
    for text, number in begun.items():
        first[text] = (-(-number * len(state) // slots), 0)
        first[SKIPPED + text] = (round(1e6 * (first[text][0] - read[text] / slots)), 0)
    return {slot: dict(first) for slot in range(slots)}


def skipped(places: Mapping[str, StreamPosition], text: str) -> float:
    """Documents of a text before the position of a slot that it has not read."""
    return places.get(SKIPPED + text, (0, 0))[0] / 1e6


class BatchStream:
    """The microbatches of some slots, step by step.

    Attributes:
        state: positions of the packers after the batches taken so far, by slot.
    """

    def __init__(
        self,
        plan: StreamPlan,
        slots: Sequence[int],
        *,
        first_step: int,
        last_step: int,
        state: State | None = None,
        workers: int = 1,
    ) -> None:
        self._slots = list(slots)
        self.state: State = {slot: dict((state or {}).get(slot, {})) for slot in slots}
        self._last_step = last_step
        self._workers: list[_StreamProcess] = []
        self._packers: list[SlotPacker] = []
        if workers == 0 or multiprocessing.current_process().daemon:  # which may start none
            self._packers = plan.packers(self._slots, self.state)
            return
        count = min(workers, len(self._slots))
        for i in range(count):
            mine = self._slots[i::count]
            worker = _StreamProcess(
                plan, mine, {s: self.state[s] for s in mine}, first_step, last_step
            )
            self._workers.append(worker)

    def take(self, step: int) -> list[Batch] | None:
        """The batches of `step`, the next one, in order of slots; None after the last step.

        They do not change `state` before `use`.
        """
        if step > self._last_step:
            return None
        if self._workers:
            count = len(self._workers)
            return [self._workers[i % count].take() for i in range(len(self._slots))]
        return [packer.batch(step) for packer in self._packers]

    def use(self, step: int, batches: Sequence[Batch]) -> None:
        """Advance the state after the batches of `step`."""
        for batch in batches:
            if batch.step != step:
                raise ModtokError(f"the batch stream is at step {batch.step}, not {step}")
            self.state[batch.slot] = batch.positions

    def close(self) -> None:
        """Stop the worker processes."""
        for worker in self._workers:
            worker.close()
        self._workers = []


class _StreamProcess:
    """One process, and the pipe of its batches.

    A queue of multiprocessing would have semaphores, which outlive a process that is killed.
    """

    def __init__(
        self, plan: StreamPlan, slots: Sequence[int], state: State, first: int, last: int
    ) -> None:
        # Not forked: the parent has threads of torch and, on GPUs, a CUDA context.
        context = multiprocessing.get_context("spawn")
        self._batches, theirs = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_work, args=(plan, list(slots), state, first, last, theirs), daemon=True
        )
        with starting_processes():
            # These too are for the rank, which finishes its step first.
            previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGHUP})
            try:
                self._process.start()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, previous)
                theirs.close()  # the pipe ends when the worker does

    def take(self) -> Batch:
        try:
            item = self._batches.recv()
        except (EOFError, OSError):
            self._process.join()
            raise ModtokError(
                f"a tokenization process died (status {self._process.exitcode})",
                remedy="resume from the last checkpoint with --resume",
            ) from None
        if isinstance(item, Batch):
            return item
        raise item

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._batches.close()


def _work(
    plan: StreamPlan, slots: list[int], state: State, first: int, last: int, out: Connection
) -> None:
    """Main function of a worker: make batches until the last step or the parent's end."""
    ahead: Queue[object] = Queue(AHEAD * len(slots))
    sender = Thread(target=_send, args=(ahead, out), daemon=True)
    sender.start()
    try:
        packers = plan.packers(slots, state)
        for step in range(first, last + 1):
            for packer in packers:
                ahead.put(packer.batch(step))
    except ModtokError as error:
        ahead.put(ModtokError(str(error)))
    except Exception as error:
        ahead.put(ModtokError(f"tokenization failed ({type(error).__name__}: {error})"))
    ahead.put(None)
    sender.join()


def _send(ahead: Queue[object], out: Connection) -> None:
    """Send what is made ahead, until None; the parent may be gone (kill -9)."""
    try:
        while (item := ahead.get()) is not None:
            out.send(item)
    except OSError:
        os._exit(1)
