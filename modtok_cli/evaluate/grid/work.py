"""Evaluate cells by the functions of their tasks, in this process or in several.

A process loads a model once, and it serves cell after cell. Every finished cell is on disk, so
that any process can be killed at any time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.processes import die_with_parent, environment
from modtok_cli.base.progress import Progress, Silent
from modtok_cli.evaluate.bits import measure_texts
from modtok_cli.evaluate.generation import summarize, translate
from modtok_cli.evaluate.grid.cells import Cell, Place, Row, Store
from modtok_cli.evaluate.grid.plan import in_order_of_models
from modtok_cli.evaluate.mcq import answer
from modtok_cli.evaluate.models import Models, open_models
from modtok_cli.evaluate.results import BPB, MCQ, MT

_MODULE = "modtok_cli.evaluate.grid.work"
_GRACE_SECONDS = 10.0
Done = Callable[[Cell, str | None], None]
"""Called with every cell that is done, and why it failed if it did."""
Answer = tuple[str | None, str | None, list[str]]
"""Why a cell failed, why nothing can go on, and warnings."""


def work(
    cells: Sequence[Cell],
    output: Path,
    *,
    workers: int,
    device: str | None,
    progress: Progress,
    done: Done,
) -> None:
    """Evaluate cells and save them in `output`."""
    ordered = in_order_of_models(cells)
    if workers == 1 or len(cells) < 2:
        loaded, store = Loaded(device), Store(output)
        for cell in ordered:
            done(cell, compute(cell, loaded, store, progress))
        return
    with _Workers(min(workers, len(cells)), output, device) as pool:
        pool.run(Queue(ordered), progress, done)


class Loaded:
    """The model that this process has loaded last."""

    def __init__(self, device: str | None = None) -> None:
        self._device = device
        self._last: tuple[Place, Models] | None = None

    def of(self, place: Place, progress: Progress) -> Models:
        """Models of a checkpoint or slice, loaded if it is another one."""
        if self._last is None or self._last[0] != place:
            self._last = None  # before the next one needs memory
            models = open_models(
                place.path,
                place.tokenizer,
                place.step,
                place.dtype,
                device=self._device,
                progress=progress,
            )
            self._last = place, models
        self._last[1].progress = progress
        return self._last[1]


def evaluate_cell(cell: Cell, models: Models) -> tuple[list[Row], list[Row]]:
    """(rows, examples) of a cell: those of the command of its task."""
    language, settings = str(cell.language), cell.settings
    if cell.kind == BPB:
        source = cell.data or ""
        found = measure_texts(models, [source], cell.language, cell.reading, settings)
        return found.rows, found.examples
    if cell.kind == MCQ:
        evaluation = answer(models, [language], cell.data, cell.include, settings)
    else:
        assert cell.data is not None
        if cell.kind == MT:
            evaluation = translate(models, language, cell.data, settings)
        else:
            evaluation = summarize(models, [language], cell.data, settings)
    if evaluation.skipped:
        raise ModtokError("; ".join(evaluation.skipped))
    return [result.as_row() for result in evaluation.results], evaluation.examples


def compute(cell: Cell, loaded: Loaded, store: Store, progress: Progress) -> str | None:
    """Evaluate a cell and save it; returns why it failed, None if it did not."""
    try:
        rows, examples = evaluate_cell(cell, loaded.of(cell.place, progress))
    except ModtokError as error:
        return str(error)
    store.write(cell, rows, examples)
    return None


class Queue:
    """Cells that wait, by what they are loaded from."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self._waiting: dict[Place, deque[Cell]] = {}
        for cell in cells:
            self._waiting.setdefault(cell.place, deque()).append(cell)

    def take(self, loaded: Place | None, others: Sequence[Place | None]) -> Cell | None:
        """The next cell for a process that has `loaded`; None if none waits.

        Rather one of the same model, or of one that no other process has.
        """
        left = {place: cells for place, cells in self._waiting.items() if cells}
        if not left:
            return None
        if loaded in left:
            return left[loaded].popleft()
        place = min(left, key=lambda each: (others.count(each), -len(left[each])))
        # From the end: its vocabulary is not the one that the other process is at.
        return left[place].pop() if place in others else left[place].popleft()


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    cells: Connection
    answers: Connection
    cell: Cell | None = None
    loaded: Place | None = None

    @staticmethod
    def start(words: Sequence[str]) -> _Worker:
        process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
        )
        assert process.stdin is not None
        assert process.stdout is not None
        # Connections own their descriptors.
        with process.stdin, process.stdout:
            cells = Connection(os.dup(process.stdin.fileno()), readable=False)
            answers = Connection(os.dup(process.stdout.fileno()), writable=False)
        return _Worker(process, cells, answers)

    def send(self, cell: Cell) -> None:
        try:
            self.cells.send(cell)
        except OSError as error:
            raise _killed() from error

    def answer(self) -> Answer:
        try:
            answer: Answer = self.answers.recv()
        except (EOFError, OSError) as error:
            raise _killed() from error
        return answer


class _Workers:
    """Processes that evaluate cells, see `serve`."""

    def __init__(self, count: int, output: Path, device: str | None) -> None:
        words = [sys.executable, "-m", _MODULE, str(output), str(count)]
        self._commands = [[*words, str(number), device or ""] for number in range(count)]
        self._all: list[_Worker] = []

    def __enter__(self) -> _Workers:
        for words in self._commands:
            self._all.append(_Worker.start(words))
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        for worker in self._all:
            if kind is not None:
                worker.process.terminate()
            worker.cells.close()  # the process ends by itself
        for worker in self._all:
            try:
                worker.process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
            worker.answers.close()

    def run(self, queue: Queue, progress: Progress, done: Done) -> None:
        """Have all cells evaluated."""
        for worker in self._all:
            self._give(worker, queue)
        while busy := {worker.answers: worker for worker in self._all if worker.cell}:
            for answers in wait(list(busy)):
                assert isinstance(answers, Connection)
                worker = busy[answers]
                failure, broken, warnings = worker.answer()
                for line in warnings:
                    progress.warn(line)
                if broken is not None:
                    raise ModtokError(broken)
                assert worker.cell is not None
                done(worker.cell, failure)
                self._give(worker, queue)

    def _give(self, worker: _Worker, queue: Queue) -> None:
        others = [each.loaded for each in self._all if each is not worker]
        worker.cell = queue.take(worker.loaded, others)
        if worker.cell is not None:
            worker.loaded = worker.cell.place
            worker.send(worker.cell)


def _killed() -> ModtokError:
    return ModtokError(
        "a worker was killed, possibly for lack of memory",
        remedy="repeat the command to resume; fewer --workers need less memory",
    )


def serve(output: Path, count: int, number: int, device: str | None) -> None:
    """Evaluate the cells that come on standard input, and answer each on standard output.

    Both are pipes to the process that started this one.
    """
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
    cells = Connection(os.dup(0), writable=False)
    answers = Connection(os.dup(1), readable=False)
    os.dup2(2, 1)  # what libraries print must not come between the answers
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, torch.get_num_threads() // count))
    if not device and torch.cuda.is_available():
        device = f"cuda:{number % torch.cuda.device_count()}"
    loaded, store = Loaded(device or None), Store(output)
    while True:
        try:
            cell = cells.recv()
        except EOFError:
            return
        progress = Silent()
        answer: Answer
        try:
            answer = compute(cell, loaded, store, progress), None, progress.warnings
        except ModtokError as error:
            answer = None, str(error), progress.warnings
        except Exception as error:  # the parent reports it
            answer = None, f"{cell.label}: {type(error).__name__}: {error}", progress.warnings
        answers.send(answer)


def _main(words: Sequence[str]) -> None:
    output, count, number, device = words
    serve(Path(output), int(count), int(number), device)


if __name__ == "__main__":
    _main(sys.argv[1:])
