"""`modtok eval mcq`: accuracy on multiple-choice questions, by language and task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modtok_cli.base.errors import missing
from modtok_cli.cli.command import Call, Json, Plot, command
from modtok_cli.cli.evaluation_output import Examples, emit_evaluation, shared_work
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import Column
from modtok_cli.evaluate.evaluate import evaluate_mcq
from modtok_cli.evaluate.questions import LAYOUT
from modtok_cli.model.parameters import Gpus
from modtok_cli.reports.tables import with_interval
from modtok_cli.text.languages import optional_languages

if TYPE_CHECKING:
    from modtok_cli.evaluate.results import Result

WORKSPACE_TASKS = Path("tasks")


@command(
    "eval mcq",
    evaluate_mcq,
    keeps=True,
    examples="""
    # the last run, each language with its own subtokenizer
    modtok eval mcq
    # full input vocabulary, predictions over the vocabulary of the language
    modtok eval mcq --langs fr,fi --infer full-lang --tasks arc_easy,hellaswag
    # a slice on local questions, with one row per question
    modtok eval mcq fr-en/ --eval-data tasks --examples answers.jsonl
    # two modes, and two models; rows in results/ are not computed again
    modtok eval mcq --infer lang --infer full
    modtok eval mcq runs/latest fr-en/
    # eight GPUs share the questions
    modtok eval mcq --gpus 8
    """,
)
def show(
    call: Call,
    gpus: Gpus = 1,
    examples: Examples = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Questions are read from --eval-data, else from tasks/ in the workspace, else from the hub.
    Languages and tasks without questions are reported, and the exit status is 1.
    """
    folder = call.values.get("data")
    if folder is not None and not folder.is_dir():
        raise missing(folder, LAYOUT)
    if folder is None and (WORKSPACE_TASKS / "mcq").is_dir():
        folder = WORKSPACE_TASKS
    require_models("lm_eval")
    names = optional_languages(call.values.get("tasks"), "--tasks")
    if folder is not None and all_local(folder, names):
        from modtok_cli.evaluate.hub_tasks import stay_local

        stay_local()
    with shared_work(call, gpus, examples) as shared:
        evaluation = call(data=folder, **shared)
    title = "Accuracy (95% interval)"
    emit_evaluation(call, evaluation, title, examples, plot, json=json, pivot=pivot)
    shared["kept"].close()


def all_local(folder: Path, tasks: Sequence[str] | None) -> bool:
    """Return whether all `tasks` are local files; lm-eval tasks may load data from the hub."""
    from modtok_cli.evaluate.questions import Folder
    from modtok_cli.evaluate.suite import LETTERS, suites

    local = {*suites(), *Folder(folder).tasks}
    return tasks is None or local.issuperset(name.removesuffix(LETTERS) for name in tasks)


def pivot(results: Sequence[Result]) -> tuple[list[Mapping[str, Any]], list[Column]]:
    """Return the table of languages × tasks; the last row is the accuracy of guessing."""
    tasks = list(dict.fromkeys(result.task for result in results))
    tasks.sort(key=lambda task: task == "mean")
    lines: dict[str, dict[str, Any]] = {}
    guess: dict[str, Any] = {"language": "guessing"}
    for result in results:
        line = lines.setdefault(result.language, {"language": result.language})
        # The first metric of a task of lm-eval.
        line.setdefault(result.task, with_interval(vars(result)))
        if "chance" in result.facts:
            guess.setdefault(result.task, f"{result.facts['chance']:.1f}")
    rows: list[Mapping[str, Any]] = [*lines.values()]
    if len(guess) > 1:
        rows.append(guess)
    return rows, [Column("language", "lang"), *(Column(task, task) for task in tasks)]
