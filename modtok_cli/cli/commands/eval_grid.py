"""`modtok eval grid`: runs × tasks × languages × inference modes from one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modtok_cli.cli.command import command
from modtok_cli.cli.commands.eval_mcq import WORKSPACE_TASKS, all_local, stay_local
from modtok_cli.cli.evaluation_output import require_evaluation
from modtok_cli.cli.options import Json, Output
from modtok_cli.cli.output import Column, emit_rows, emit_tables
from modtok_cli.cli.session import Session

if TYPE_CHECKING:
    from modtok_cli.evaluate.grid.plan import Skipped
    from modtok_cli.evaluate.grid.spec import Mcq

COLUMNS = (
    Column("system", "system"),
    Column("seed", "seed", "int"),
    Column("step", "step", "int"),
    Column("task", "task"),
    Column("language", "lang"),
    Column("infer", "infer"),
    Column("metric", "metric"),
    Column("value", "score", "ratio"),
    Column("low", "from", "ratio"),
    Column("high", "to", "ratio"),
    Column("n", "n", "int"),
)
CELLS = (
    Column("run", "run"),
    Column("step", "step", "int"),
    Column("task", "task"),
    Column("language", "lang"),
    Column("infer", "infer"),
    Column("state", "state"),
)
GridFile = Annotated[
    Path, typer.Argument(metavar="GRID", help="TOML file with runs, tasks and inference modes.")
]
Workers = Annotated[
    int,
    typer.Option("--workers", metavar="N", min=1, help="Number of processes, each with a model."),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="List the cells and which are done; evaluate nothing.")
]


@command(
    "eval grid",
    examples="""
    # all cells of a file, then the same command after it was interrupted
    modtok eval grid grid.toml
    modtok eval grid grid.toml --workers 4
    # what it would do
    modtok eval grid grid.toml --dry-run
    """,
)
def eval_grid(
    session: Session,
    grid: GridFile,
    output: Output = None,
    workers: Workers = 1,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Evaluate runs on tasks under several inference modes.

    Each run, task, language or pair, and mode of the file is a cell, which is evaluated once and
    saved. An interrupted grid continues; when a checkpoint, a text or a setting changes, only
    its cells are evaluated again. Cells that do not apply to a run are listed and skipped.

    Rows have the fields of eval mcq, mt, sum and bpb, and run, step, sampling, p, seed. They are
    written to scores.jsonl and bpb.jsonl in -o, grids/NAME by default, of which modtok report
    makes a page.
    """
    require_evaluation("lm_eval", "sacrebleu")
    from modtok_cli.evaluate.grid.spec import read_grid

    wanted = read_grid(grid)
    if all(is_local(task) for task in wanted.mcq):
        stay_local()
    from modtok_cli.evaluate.grid.grid import evaluate_grid, list_cells

    place = output or Path("grids") / grid.stem
    if dry_run:
        rows = list_cells(wanted, place, progress=session.progress)
        done = sum(row["state"] == "done" for row in rows)
        emit_rows(rows, CELLS, title=f"{done} of {len(rows)} cells are done", json=json)
        return
    result = evaluate_grid(wanted, place, workers=workers, progress=session.progress)
    for line in summary_of(result.skipped):
        session.say(line)
    rows = result.rows
    if rows:
        lines = [as_score(row) for row in rows]
        emit_tables(rows, [("Scores (95% interval)", lines, COLUMNS)], json=json)
    result.require_complete()


def is_local(task: Mcq) -> bool:
    """Whether all questions are in files."""
    folder = task.data or WORKSPACE_TASKS
    return (task.data is not None or (folder / "mcq").is_dir()) and all_local(folder, task.tasks)


def as_score(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """A row with the columns of a score, also of bits per byte."""
    if "bits_per_byte" not in row:
        return row
    return {
        **row,
        "task": "bpb",
        "metric": "bits/byte",
        "value": row["bits_per_byte"],
        "n": row["documents"],
    }


def summary_of(skipped: Sequence[Skipped]) -> list[str]:
    """One line for all cells that are skipped for one reason."""
    groups: dict[str, list[Skipped]] = {}
    for each in skipped:
        groups.setdefault(each.why, []).append(each)
    lines = []
    for why, group in groups.items():
        names = [
            ",".join(dict.fromkeys(str(getattr(each, part)) for each in group))
            for part in ("run", "task", "language", "infer")
            if any(getattr(each, part) for each in group)
        ]
        lines.append(f"skipped {' '.join(names)}: {why}")
    return lines
