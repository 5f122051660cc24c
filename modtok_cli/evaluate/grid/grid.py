"""`modtok eval grid`: evaluate runs × tasks × languages × modes, and go on where it stopped."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.files import write_lines
from modtok_cli.base.locks import locked
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.grid.cells import Cell, Row, Store
from modtok_cli.evaluate.grid.plan import Plan, Planned, Skipped, plan_grid
from modtok_cli.evaluate.grid.spec import Grid, checked
from modtok_cli.evaluate.grid.work import work

SCORES, BITS = "scores.jsonl", "bpb.jsonl"
_NOTE_SECONDS = 60.0


@dataclass(frozen=True)
class GridResult:
    """What a grid gave.

    Attributes:
        plan: its cells.
        store: their files.
        skipped: what does not apply to a run.
        failed: (cell, reason) of those that could not be evaluated.
        computed: number of cells that this call evaluated.
    """

    plan: Plan
    store: Store
    skipped: Sequence[Skipped]
    failed: Sequence[tuple[Cell, str]]
    computed: int

    @property
    def rows(self) -> list[Row]:
        """The rows of all cells, in the order of the grid; see `rows_of`."""
        return [row for planned in self.done for row in rows_of(planned, self.store)]

    @property
    def done(self) -> list[Planned]:
        """The cells that have results."""
        lost = {cell.key for cell, _ in self.failed}
        return [planned for planned in self.plan.cells if planned.cell.key not in lost]

    def require_complete(self) -> None:
        """Report cells that could not be evaluated."""
        if self.failed:
            cell, why = self.failed[0]
            more = f" and {len(self.failed) - 1} more" if len(self.failed) > 1 else ""
            raise ModtokError(f"incomplete: {cell.label}{more}: {why}")


def rows_of(planned: Planned, store: Store) -> list[Row]:
    """The rows of a cell: those of the command of its task, and the fields of its run.

    These are `run`, `step`, `sampling`, `p`, `seed`, `system` (what the seeds of one system share)
    and `drawn`, the size of a random set of languages, 0 if the mode was named.
    """
    labels = {**planned.run.labels, "system": planned.run.name, "drawn": planned.drawn}
    return [{**row, **labels} for row in store.rows(planned.cell.key)]


def run_grid(
    grid: Grid,
    output: Path,
    *,
    workers: int = 1,
    device: str | None = None,
    progress: Progress = SILENT,
) -> GridResult:
    """Evaluate the cells that `output` lacks, and write the rows of all.

    `output` gets `cells/`, and `scores.jsonl` and `bpb.jsonl` with all rows of the grid. A cell
    is named by what it depends on: weights, tokenizer, data, mode and settings. So an interrupted
    grid goes on, and one that changed computes what changed.

    Args:
        workers: processes; the results are the same for any number.
        device: of the models; a GPU if there is one. With several GPUs each worker has its own.
    """
    if workers < 1:
        raise UsageError(f"expected at least 1 worker, got {workers}")
    plan = plan_grid(checked(grid), progress)
    store = Store(output)
    _prepare(store.folder)
    with locked(output):
        cells = {planned.cell.key: planned.cell for planned in plan.cells}
        missing = [cell for key, cell in cells.items() if not store.has(key)]
        failed: list[tuple[Cell, str]] = []
        once = _Once(progress)
        once.note(f"{len(cells)} cells, {len(cells) - len(missing)} are done")
        with progress.task("grid", len(missing), "cells") as task:
            clock = _Clock(len(missing), progress)

            def done(cell: Cell, failure: str | None) -> None:
                if failure is not None:
                    failed.append((cell, failure))
                    progress.warn(f"{cell.label}: {failure}")
                task.advance()
                clock.advance()

            work(missing, output, workers=workers, device=device, progress=once, done=done)
        result = GridResult(plan, store, plan.skipped, failed, len(missing) - len(failed))
        _write(output, result.rows)
    return result


def list_cells(grid: Grid, output: Path, *, progress: Progress = SILENT) -> list[Row]:
    """A row for each cell, with `state`: "done", "missing" or "skipped: …"."""
    plan, store = plan_grid(checked(grid), progress), Store(output)
    rows: list[Row] = [
        {
            "run": planned.run.place.path.name,
            "step": planned.cell.place.step,
            "task": planned.cell.task,
            "language": planned.cell.language or str(planned.cell.data),
            "infer": planned.cell.settings.infer,
            "state": "done" if store.has(planned.cell.key) else "missing",
            "key": planned.cell.key,
        }
        for planned in plan.cells
    ]
    for each in plan.skipped:
        fields = {name: getattr(each, name) for name in ("run", "task", "language", "infer")}
        rows.append({**fields, "step": None, "state": f"skipped: {each.why}", "key": None})
    return rows


def _prepare(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ModtokError(f"cannot write: {error.strerror}", where=folder) from error


def _write(output: Path, rows: Sequence[Row]) -> None:
    """Write all rows, those with bits per byte apart: they have other fields."""
    for name, chosen in (
        (SCORES, [row for row in rows if "bits_per_byte" not in row]),
        (BITS, [row for row in rows if "bits_per_byte" in row]),
    ):
        if chosen:
            write_lines(output / name, chosen)
        else:
            (output / name).unlink(missing_ok=True)


class _Clock:
    """Notes on long work where no bar is drawn."""

    def __init__(self, total: int, progress: Progress) -> None:
        self._total, self._progress = total, progress
        self._start = self._last = time.monotonic()
        self._done = 0

    def advance(self) -> None:
        self._done += 1
        now = time.monotonic()
        if self._progress.draws or now - self._last < _NOTE_SECONDS or self._done == self._total:
            return
        self._last = now
        speed = self._done / (now - self._start)
        left = (self._total - self._done) / speed / 60
        self._progress.note(
            f"{self._done}/{self._total} cells, {60 * speed:.1f} per minute, {left:.0f} min left"
        )


class _Once:
    """A progress that says each line once: cells of one run would repeat it."""

    def __init__(self, progress: Progress) -> None:
        self.draws, self.task = progress.draws, progress.task
        self.note, self.warn = cache(progress.note), cache(progress.warn)
