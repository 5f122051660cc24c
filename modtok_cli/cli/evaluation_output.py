"""Shared by the `modtok eval` commands: they run on several GPUs, and print rows and examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import check_suffix
from modtok_cli.base.option import Option
from modtok_cli.cli.command import Call
from modtok_cli.cli.inference_options import require_models, sharing
from modtok_cli.cli.output import KEEP, Column, emit_tables, parse_columns
from modtok_cli.cli.plotting import emit_plot

if TYPE_CHECKING:
    from modtok_cli.base.progress import Progress
    from modtok_cli.evaluate.results import Evaluation, Kept, Result
    from modtok_cli.model.generate.worker_processes import Processes

COLUMNS = parse_columns(
    "task, language=lang, metric, value=score:score, low=from:score, high=to:score, n:int, "
    "shots, normalization=norm, infer"
)
Examples = Annotated[
    Path | None,
    Option("Write one row per example to FILE.", metavar="FILE", writes=True),
]
Pivot = Callable[["Sequence[Result]"], tuple[list[Mapping[str, Any]], list[Column]]]


class SharedWork(TypedDict):
    """Arguments of an evaluation's function that the command makes."""

    processes: Processes
    kept: Kept
    progress: Progress


@contextmanager
def shared_work(
    call: Call,
    gpus: int,
    examples: Path | None,
    *,
    needs: Sequence[str] = (),
    reads_input: bool = False,
) -> Iterator[SharedWork]:
    """Share an evaluation among processes; only the first one goes on after the block.

    Rows that results/ has are not computed again, unless `examples` are wanted, which it lacks.
    Those that this call computes are there at once, so that it goes on after it was stopped;
    `kept.close` removes them after they are printed.

    Raises:
        UsageError: a package of `needs` is not installed, or `examples` is a directory or
            is named like another format.
    """
    if examples is not None:
        check_suffix(examples, [".jsonl"])
        if examples.is_dir():
            remedy = "give a file: --examples FILE"
            raise UsageError("is a directory", where=examples, remedy=remedy)
    require_models(*needs)
    from modtok_cli.evaluate.results import Kept

    with sharing(call, gpus, reads_input=reads_input) as processes:
        place = call.session.results if KEEP.get() and examples is None else None
        call.session.resumes = place is not None
        kept = Kept(place, call.session.unfinished if processes.first else None)
        progress = processes.only_first(call.progress)
        yield {"processes": processes, "kept": kept, "progress": progress}
    if kept.reused:
        call.say(f"{kept.reused:,} evaluations come from results/ (--no-keep repeats them)")


@contextmanager
def writing_examples(path: Path | None, examples: Sequence[Mapping[str, Any]]) -> Iterator[None]:
    """Write the examples when the block ends, even if writing the results failed.

    A full disk must not lose the results, and a closed pipe must not lose the examples: either
    may be the output of hours.
    """
    try:
        yield
    finally:
        if path is not None:
            from modtok_cli.base.files import write_lines

            write_lines(path, examples)


def emit_evaluation(
    call: Call,
    evaluation: Evaluation,
    title: str,
    examples: Path | None = None,
    plot: str | None = None,
    *,
    json: bool,
    pivot: Pivot | None = None,
) -> None:
    """Write rows, as `pivot` shows them, examples and the plot, then report what is incomplete.

    Raises:
        ModtokError: some tasks were skipped; raised after everything else is written.
    """
    rows = evaluation.rows
    groups: dict[tuple[Any, ...], list[Result]] = {}
    for result in evaluation.results:
        groups.setdefault((result.facts.get("run"), result.checkpoint, result.infer), []).append(
            result
        )
    tables: list[tuple[str, Sequence[Mapping[str, Any]], Sequence[Column]]] = []
    for (run, _, mode), results in groups.items():
        lines, columns = pivot(results) if pivot else ([each.as_row() for each in results], COLUMNS)
        name = f"{title}: {run} --infer {mode}" if len(groups) > 1 else title
        tables.append((name, lines, columns))
    with writing_examples(examples, evaluation.examples):
        if rows:
            signatures = [results[0].signature for results in groups.values()]
            emit_tables(rows, tables, json=json, caption=signatures)
    if rows:
        emit_plot(call.say, plot, [row for row in rows if row["task"] != "mean"], "evaluation")
    evaluation.require_complete()
