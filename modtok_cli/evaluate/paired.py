"""Two systems on the same examples; imports torch when models are evaluated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from modtok_cli.base import parameters
from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import check_new, write_lines
from modtok_cli.base.option import Option
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.evaluate.evaluate import evaluate_bpb, evaluate_mcq, evaluate_mt, evaluate_sum
from modtok_cli.evaluate.parameters import Limit, Pairs, Shared, TaskData, Tasks
from modtok_cli.text.languages import optional_languages

if TYPE_CHECKING:
    from modtok_cli.evaluate.results import Outcome


@public
def compare(
    first: Annotated[
        parameters.FilePath,
        Option(
            "First system: a model, or a file of modtok eval --examples.",
            argument=True,
            metavar="A",
        ),
    ],
    second: Annotated[
        parameters.FilePath, Option("Second system, of the same kind.", argument=True, metavar="B")
    ],
    *,
    tasks: Tasks = None,
    languages: parameters.Langs = None,
    pairs: Pairs = None,
    texts: Annotated[
        parameters.FilePath | Sequence[parameters.FilePath],
        Option(
            "Models: compare bits per byte on this text. Repeatable.",
            flags="--text",
            kind=list[str],
            metavar="TEXT",
            accepts=parameters.PATHS,
        ),
    ] = (),
    data: TaskData = "tasks",
    infer: Annotated[
        str | None, Option("Inference vocabulary of both models.", metavar="MODE")
    ] = None,
    limit: Limit = None,
    processes: Shared = None,
    progress: Progress = SILENT,
) -> list[dict[str, Any]]:
    """Compare two systems by paired bootstrap.

    Two models are evaluated on `tasks`: names of multiple-choice tasks, mcq for all of them, mt
    and sum; and on `texts`. Two files are compared as they are; both must have the same examples.

    Each metric is computed on 1,000 resamples of the examples, the same for both systems; BLEU and
    chrF++ from sentence statistics. Reports a verdict at the level of 5%, the 95% interval of the
    difference, and the p-value of no difference. A task in several languages also has a row for
    their mean.

    Returns:
        One row per task, language and metric: `verdict`, `a`, `b`, `difference` (b - a), its 95%
        interval and `p`. `write_examples` writes files.

    Examples:
        >>> rows = modtok.compare("runs/latest", "runs/latest", tasks="endings", languages="fi")
        >>> {(row["verdict"], row["p"]) for row in rows}
        {('no difference shown', 1.0)}

    Raises:
        UsageError: a model and a file, or models without anything to compare them on.
        ModtokError: the systems have different examples, or an example differs between them.
    """
    from modtok_cli.evaluate.compare import compare_examples, compare_files

    sides, names = (Path(first), Path(second)), optional_languages(tasks, "--tasks") or []
    sources = parameters.text_paths(texts) if parameters.is_path(texts) or texts else []
    if not any(side.is_dir() for side in sides):
        if names or sources:
            raise UsageError("--tasks and --text are for models", where=first)
        return compare_files(*sides)
    if not (names or sources):
        remedy = "as in: modtok eval compare A B --tasks mcq,mt, or --text FILE"
        raise UsageError("nothing to compare the models on", remedy=remedy)
    settings: dict[str, Any] = {
        "infer": infer, "limit": limit, "processes": processes, "progress": progress
    }  # fmt: skip
    examples: list[list[dict[str, Any]]] = []
    for side in sides:
        parts: list[Outcome] = []
        suites = [name for name in names if name not in ("mcq", "mt", "sum")]
        if suites or "mcq" in names:
            chosen = None if "mcq" in names else suites
            parts.append(evaluate_mcq(side, languages, tasks=chosen, data=data, **settings))
        if "mt" in names:
            parts.append(evaluate_mt(side, pairs, data=data, **settings))
        if "sum" in names:
            parts.append(evaluate_sum(side, languages, data=data, **settings))
        if sources:
            parts.append(evaluate_bpb(side, sources, languages=languages, **settings))
        for part in parts:
            part.require_complete()
        examples.append([row for part in parts for row in part.examples])
    return compare_examples(examples[0], examples[1], *sides)


@public
def write_examples(
    path: Annotated[parameters.FilePath, Option("File to write.", metavar="FILE")],
    examples: Annotated[
        Sequence[Mapping[str, Any]],
        Option("Those of an evaluation.", python_only=True, kind=object),
    ],
    *,
    force: parameters.Force = False,
) -> None:
    """Write the examples of an evaluation as JSON lines, for `compare`.

    Raises:
        UsageError: the file exists and `force` is not set.
        ModtokError: the file cannot be written.
    """
    check_new(Path(path), force=force, flag="path")
    write_lines(Path(path), examples)
