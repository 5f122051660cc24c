"""`modtok eval mcq`: accuracy on multiple-choice questions, by language and task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.cli import completion
from modtok_cli.cli.command import command
from modtok_cli.cli.evaluation_output import (
    Examples,
    Infer,
    Limit,
    Shots,
    check_examples,
    torch_dtype,
    writing_examples,
)
from modtok_cli.cli.inference_options import (
    LATEST,
    Dtype,
    Gpus,
    Model,
    RunTokenizer,
    Step,
    require_models,
)
from modtok_cli.cli.options import Json, Langs, Plot
from modtok_cli.cli.output import Column, emit_tables
from modtok_cli.cli.plotting import check_plot, emit_plot
from modtok_cli.cli.session import Session
from modtok_cli.cli.several_processes import sharing
from modtok_cli.text.languages import optional_languages

if TYPE_CHECKING:
    from modtok_cli.evaluate.results import Result

WORKSPACE_TASKS = Path("tasks")
Tasks = Annotated[
    str | None,
    typer.Option(
        "--tasks",
        metavar="NAME,...",
        autocompletion=completion.tasks,
        help="Comma-separated tasks: built-in suites or lm-eval tasks.",
    ),
]
Questions = Annotated[
    Path | None,
    typer.Option(
        "--data", metavar="PATH", help="Directory with mcq/TASK/LANG.jsonl, instead of the hub."
    ),
]
Include = Annotated[
    Path | None,
    typer.Option(
        "--include",
        metavar="DIR",
        allow_from_autoenv=False,  # tasks may hold code
        help="Directory with additional lm-eval tasks.",
    ),
]
AllowCode = Annotated[
    bool,
    typer.Option(
        "--allow-code",
        allow_from_autoenv=False,  # consent is given on the command line
        help="Load tasks of --include that contain code (!function).",
    ),
]
BatchSize = Annotated[
    int, typer.Option("--batch-size", metavar="N", min=1, help="Number of choices per batch.")
]


@command(
    "eval mcq",
    keeps=True,
    examples="""
    # the last run, each language with its own subtokenizer
    modtok eval mcq
    # full input vocabulary, predictions over the vocabulary of the language
    modtok eval mcq --langs fr,fi --infer full-lang --tasks arc_easy,hellaswag
    # a slice on local questions, with one row per question
    modtok eval mcq fr-en/ --data tasks --examples answers.jsonl
    # eight GPUs share the questions
    modtok eval mcq --gpus 8
    """,
)
def eval_mcq(
    session: Session,
    model: Model = LATEST,
    langs: Langs = None,
    tasks: Tasks = None,
    data: Questions = None,
    infer: Infer = None,
    shots: Shots = None,
    batch_size: BatchSize = 32,
    limit: Limit = None,
    gpus: Gpus = 1,
    examples: Examples = None,
    include: Include = None,
    allow_code: AllowCode = False,
    step: Step = None,
    tokenizer: RunTokenizer = None,
    dtype: Dtype = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Evaluate on multiple-choice questions in cloze form.

    English: ARC, HellaSwag, MMLU, BeleBele, CSQA, PIQA, SIQA. Other languages: translations of
    the first four. 5 shots (HellaSwag and BeleBele: 0); accuracy under the normalization of
    each task. XNLI, XCOPA, XStoryCloze and Global MMLU are not part of the mean.

    Questions are read from --data, else from tasks/ in the workspace, else from the hub.
    Languages and tasks without questions are reported, and the exit status is 1.
    """
    check_plot(plot)
    check_examples(examples)
    languages = optional_languages(langs)
    names = optional_languages(tasks, "--tasks")
    if data is not None and not data.is_dir():
        raise UsageError(
            "directory does not exist", where=str(data), remedy="see docs/evaluation.md"
        )
    require_models("lm_eval")
    folder = data or (WORKSPACE_TASKS if (WORKSPACE_TASKS / "mcq").is_dir() else None)
    if folder is not None and all_local(folder, names):
        stay_local()
    from modtok_cli.evaluate.mcq import McqSettings, evaluate_mcq

    settings = McqSettings(
        infer=infer,
        tasks=None if names is None else tuple(names),
        shots=shots,
        batch_size=batch_size,
        limit=limit,
        allow_code=allow_code,
    )
    with sharing(session, gpus) as processes:
        evaluation = evaluate_mcq(
            model,
            languages,
            data=folder,
            include=include,
            settings=settings,
            tokenizer=tokenizer,
            step=step,
            dtype=torch_dtype(dtype),
            processes=processes,
            progress=processes.only_first(session.progress),
        )
    with writing_examples(examples, evaluation):
        if evaluation.results:
            lines, columns = pivot(evaluation.results)
            emit_tables(
                [result.as_row() for result in evaluation.results],
                [("Accuracy (95% interval)", lines, columns)],
                json=json,
                caption=evaluation.results[0].signature,
            )
    if evaluation.results:
        rows = [result.as_row() for result in evaluation.results if result.task != "mean"]
        emit_plot(session, plot, rows, "evaluation")
    evaluation.require_complete()


def all_local(folder: Path, tasks: Sequence[str] | None) -> bool:
    """Whether all `tasks` are local files; lm-eval tasks may load data from the hub."""
    from modtok_cli.evaluate.questions import Folder
    from modtok_cli.evaluate.suite import suites

    return tasks is None or {*suites(), *Folder(folder).tasks}.issuperset(tasks)


def stay_local() -> None:
    """Disable network access of the libraries of lm-eval; all data is local."""
    import os

    for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"):
        os.environ.setdefault(name, "1")


def pivot(results: Sequence[Result]) -> tuple[list[Mapping[str, Any]], list[Column]]:
    """Table of languages × tasks; the last row is the accuracy of guessing."""
    tasks = list(dict.fromkeys(result.task for result in results))
    tasks.sort(key=lambda task: task == "mean")
    lines: dict[str, dict[str, Any]] = {}
    guess: dict[str, Any] = {"language": "guessing"}
    for result in results:
        line = lines.setdefault(result.language, {"language": result.language})
        line.setdefault(result.task, _cell(result))  # the first metric of an lm-eval task
        if "chance" in result.facts:
            guess.setdefault(result.task, f"{result.facts['chance']:.1f}")
    rows: list[Mapping[str, Any]] = [*lines.values()]
    if len(guess) > 1:
        rows.append(guess)
    return rows, [Column("language", "lang"), *(Column(task, task) for task in tasks)]


def _cell(result: Result) -> str:
    if result.low is None or result.high is None:
        return f"{result.value:.1f}"
    return f"{result.value:.1f} ({result.low:.1f}–{result.high:.1f})"
