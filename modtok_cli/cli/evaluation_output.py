"""What the `modtok eval` commands share: they run on several GPUs, and print rows and examples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option
from modtok_cli.cli.command import Call
from modtok_cli.cli.inference_options import require_models, sharing
from modtok_cli.cli.output import Column, emit_tables, parse_columns
from modtok_cli.cli.plotting import emit_plot

if TYPE_CHECKING:
    from modtok_cli.evaluate.results import Evaluation, Result

COLUMNS = parse_columns(
    "task, language=lang, metric, value=score:score, low=from:score, high=to:score, n:int, "
    "shots:int, normalization=norm, infer"
)
Examples = Annotated[
    Path | None,
    Option("Write one row per example to FILE.", metavar="FILE", writes=True),
]
Pivot = Callable[["Sequence[Result]"], tuple[list[Mapping[str, Any]], list[Column]]]


def evaluated(
    call: Call,
    gpus: int,
    examples: Path | None,
    plot: str | None,
    *,
    needs: Sequence[str] = (),
    **others: Any,
) -> Evaluation:
    """Call the function of an evaluation, after what needs no model is checked.

    Raises:
        UsageError: a package of `needs` is not installed, or `examples` is a directory.
    """
    if examples is not None and examples.is_dir():
        raise UsageError("is a directory", where=examples, remedy="give a file: --examples FILE")
    require_models(*needs)
    with sharing(call, gpus) as processes:
        evaluation: Evaluation = call(
            processes=processes, progress=processes.only_first(call.progress), **others
        )
    return evaluation


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
    rows = [result.as_row() for result in evaluation.results]
    with writing_examples(examples, evaluation.examples):
        if rows:
            lines, columns = pivot(evaluation.results) if pivot else (rows, COLUMNS)
            caption = str(rows[0]["signature"])
            emit_tables(rows, [(title, lines, columns)], json=json, caption=caption)
    if rows:
        emit_plot(call, plot, [row for row in rows if row["task"] != "mean"], "evaluation")
    evaluation.require_complete()
