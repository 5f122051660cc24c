"""`modtok eval grid`: runs × tasks × languages × inference modes from one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option
from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.commands.eval_mcq import WORKSPACE_TASKS, all_local, stay_local
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import Column, emit_rows, emit_tables, parse_columns
from modtok_cli.evaluate.evaluate import evaluate_grid
from modtok_cli.text.languages import optional_languages

if TYPE_CHECKING:
    from modtok_cli.evaluate.grid.plan import Skipped
    from modtok_cli.evaluate.grid.spec import Mcq

Row = Mapping[str, Any]
TESTS = "tests"
TABLES = ("averages", "languages", "p", "combinations", TESTS)
CELLS = parse_columns("run, step:int, task, language=lang, infer, state")
DryRun = Annotated[bool, Option("List the cells and which are done; evaluate nothing.")]
Show = Annotated[
    str | None,
    Option(
        f"Tables of means and tests instead of scores: {', '.join(TABLES)}.", metavar="TABLE,..."
    ),
]


@command(
    "eval grid",
    evaluate_grid,
    resumes=True,
    examples="""
    # all cells of a file, then the same command after it was interrupted
    modtok eval grid grid.toml
    modtok eval grid grid.toml --workers 4
    # what it would do
    modtok eval grid grid.toml --dry-run
    # the paper's main table, and tests of all differences; then a page
    modtok eval grid grid.toml --show languages,tests
    modtok report grids/grid -o grid.html
    """,
)
def show(
    call: Call,
    show: Show = None,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    chosen = optional_languages(show, "--show")
    if unknown := [name for name in chosen or () if name not in TABLES]:
        raise UsageError(
            f"no table {unknown[0]!r}", where="--show", remedy=f"use {', '.join(TABLES)}"
        )
    require_models("lm_eval", "sacrebleu", "scipy")
    from modtok_cli.evaluate.grid.spec import place_of, read_grid

    grid = call.values["grid"]
    wanted, place = read_grid(grid), place_of(grid, call.values.get("output"))
    if all(is_local(task) for task in wanted.mcq):
        stay_local()
    from modtok_cli.evaluate.grid.grid import list_cells
    from modtok_cli.evaluate.grid.means import summarize

    if dry_run:
        rows = list_cells(wanted, place, progress=call.progress)
        done = sum(row["state"] == "done" for row in rows)
        emit_rows(rows, CELLS, title=f"{done} of {len(rows)} cells are done", json=json)
        return
    result = call()
    for line in summary_of(result.skipped):
        call.say(line)
    summary = summarize(result, place)  # as the call has written it
    means = summary.means if not chosen or set(chosen) - {TESTS} else []
    tests = summary.tests if chosen and TESTS in chosen else []
    tables = tables_of(chosen or ["averages", "combinations"], means, tests)
    if result.done:
        emit_tables([*means, *tests] if chosen else result.rows, tables, json=json)
    result.require_complete()


def tables_of(
    names: Sequence[str], means: Sequence[Row], tests: Sequence[Row]
) -> list[tuple[str, Sequence[Row], Sequence[Column]]]:
    """Tables by name, as `emit_tables` takes them."""
    from modtok_cli.reports.kinds.grid import SHOWN, differences

    tables: list[tuple[str, Sequence[Row], Sequence[Column]]] = []
    for name in names:
        for table in differences(tests) if name == TESTS else SHOWN[name](means):
            columns = [Column(str(place), text) for place, text in enumerate(table.headings)]
            lines = [{str(place): cell for place, cell in enumerate(row)} for row in table.rows]
            tables.append((table.caption, lines, columns))
    return tables


def is_local(task: Mcq) -> bool:
    """Whether all questions are in files."""
    folder = task.data or WORKSPACE_TASKS
    return (task.data is not None or (folder / "mcq").is_dir()) and all_local(folder, task.tasks)


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
