"""How every `modtok eval` command gives its numbers: rows, kept examples, what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.inference_options import require_models
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
    Option("--data", metavar="DIR", help="Directory with the tasks; see modtok eval fetch."),
]
Examples = Annotated[
    Path | None,
    Option("--examples", metavar="FILE", help="Keep a row for every example here."),
]
Limit = Annotated[
    int | None,
    Option("--limit", metavar="N", min=1, help="Examples at the most, of every set."),
]
Shots = Annotated[
    int | None,
    Option("--shots", metavar="N", min=0, help="Examples shown first; by the task otherwise."),
]
Infer = Annotated[
    str | None,
    Option(
        "--infer",
        metavar="MODE",
        help="Vocabulary: lang, full, full-lang, en,fr; of pairs src, tgt, src+tgt, src|tgt.",
    ),
]


def require_evaluation(*modules: str) -> None:
    """Say what to install where torch, transformers or one of `modules` is missing.

    Raises:
        UsageError: one is not installed.
    """
    from importlib.util import find_spec

    require_models()
    for module in modules:
        if find_spec(module) is None:
            raise UsageError(
                f"this needs {module}, which is not installed",
                remedy="pip install 'modtok[eval]'",
            )


def torch_dtype(name: str | None) -> torch.dtype | None:
    """The torch dtype of a `--dtype` value; None stays None."""
    if name is None:
        return None
    import torch

    dtype: torch.dtype = getattr(torch, name)
    return dtype


def check_examples(path: Path | None) -> None:
    """Find out now that examples cannot be kept there, and not after hours.

    Raises:
        UsageError: it is a directory.
    """
    if path is not None and path.is_dir():
        raise UsageError("is a directory", where=str(path), remedy="name a file: --examples FILE")


@contextmanager
def examples_kept(path: Path | None, evaluation: Evaluation) -> Iterator[None]:
    """Write the examples after the numbers were given within, or could not be.

    A full disk must not take the numbers along, and a pipe that was closed not the examples:
    both may be of hours.
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
    """Rows out, examples to their file, the picture, and then what is missing as an error.

    Raises:
        ModtokError: something was skipped (after everything else is written).
    """
    rows = [result.as_row() for result in evaluation.results]
    with examples_kept(examples, evaluation):
        if rows:
            emit_rows(rows, COLUMNS, title=title, json=json, caption=str(rows[0]["signature"]))
    if rows:
        emit_plot(session, plot, rows, "evaluation")
    evaluation.require_complete()
