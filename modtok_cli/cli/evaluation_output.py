"""Output of the `modtok eval` commands: result rows, examples, incomplete results."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.plotting import emit_plot
from modtok_cli.cli.session import Session

if TYPE_CHECKING:
    import torch

    from modtok_cli.evaluate.results import Evaluation

COLUMNS = (
    Column("task", "task"),
    Column("language", "lang"),
    Column("metric", "metric"),
    Column("value", "score", "score"),
    Column("low", "from", "score"),
    Column("high", "to", "score"),
    Column("n", "n", "int"),
    Column("shots", "shots", "int"),
    Column("normalization", "norm"),
    Column("infer", "infer"),
)
TaskData = Annotated[
    Path,
    Option("--data", metavar="PATH", help="Directory with evaluation data; see modtok eval fetch."),
]
Examples = Annotated[
    Path | None,
    Option("--examples", metavar="FILE", help="Write one row per example to FILE."),
]
Limit = Annotated[
    int | None,
    Option("--limit", metavar="N", min=1, help="Maximum number of examples per task and language."),
]
Shots = Annotated[
    int | None,
    Option(
        "--shots",
        metavar="N",
        min=0,
        help="Number of few-shot examples; set by the task by default.",
    ),
]
Infer = Annotated[
    str | None,
    Option(
        "--infer",
        metavar="MODE",
        help="Inference vocabulary: lang, full, full-lang, or languages such as en,fr; for pairs "
        "src, tgt, src+tgt or src|tgt.",
    ),
]


def torch_dtype(name: str | None) -> torch.dtype | None:
    """The torch dtype of a `--dtype` value; None stays None."""
    if name is None:
        return None
    import torch

    dtype: torch.dtype = getattr(torch, name)
    return dtype


def check_examples(path: Path | None) -> None:
    """Check the examples file before the evaluation starts.

    Raises:
        UsageError: the path is a directory.
    """
    if path is not None and path.is_dir():
        raise UsageError("is a directory", where=str(path), remedy="give a file: --examples FILE")


@contextmanager
def writing_examples(path: Path | None, evaluation: Evaluation) -> Iterator[None]:
    """Write the examples when the block ends, even if writing the results failed.

    A full disk must not lose the results, and a closed pipe must not lose the examples: either
    may be the output of hours.
    """
    try:
        yield
    finally:
        if path is not None:
            from modtok_cli.evaluate.results import write_examples

            write_examples(path, evaluation.examples)


def emit_evaluation(
    session: Session,
    evaluation: Evaluation,
    *,
    title: str,
    json: bool,
    examples: Path | None = None,
    plot: str | None = None,
) -> None:
    """Write rows, examples and the plot, then report incomplete results as an error.

    Raises:
        ModtokError: some tasks were skipped; raised after everything else is written.
    """
    rows = [result.as_row() for result in evaluation.results]
    with writing_examples(examples, evaluation):
        if rows:
            emit_rows(rows, COLUMNS, title=title, json=json, caption=str(rows[0]["signature"]))
    if rows:
        emit_plot(session, plot, rows, "evaluation")
    evaluation.require_complete()
