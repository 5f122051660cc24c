"""Options of evaluations, each a type for parameters of public functions."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from modtok_cli.base import parameters
from modtok_cli.base.option import Option
from modtok_cli.base.progress import Progress
from modtok_cli.evaluate.modes import HELP
from modtok_cli.model.kinds import RUN, model_kind
from modtok_cli.model.parameters import Dtype, RunTokenizer, Step

if TYPE_CHECKING:
    from modtok_cli.evaluate.results import Kept
    from modtok_cli.model.generate.worker_processes import Processes

Infer = Annotated[
    str | Sequence[str] | None,
    Option(
        HELP,
        kind=list[str],
        metavar="MODE",
        accepts=parameters.TEXTS,
    ),
]


def _kind(models: Any, _: object) -> str | None:
    """The kind of the first model that is no run."""
    paths = [models] if parameters.is_path(models) else models
    kinds = (model_kind(Path(each)) for each in paths)
    return next((kind for kind in kinds if kind not in (None, RUN)), None)


ModelPaths = Annotated[
    parameters.FilePath | Sequence[parameters.FilePath],
    Option(
        "Runs, checkpoints, slices, or Hugging Face models (directories or names on the hub); "
        "runs/latest by default.",
        key="model",
        argument=True,
        kind=list[str],
        metavar="MODEL",
        hub="model",
        accepts=parameters.PATHS,
        kind_of=_kind,
    ),
]
Shots = Annotated[int, Option("Number of few-shot examples.", metavar="N", low=0)]
MaxTokens = Annotated[int, Option("Maximum number of new tokens.", metavar="N", low=1)]
Prompts = Annotated[
    int, Option("Number of sequences per batch. A prompt is one.", metavar="N", low=1)
]
Limit = Annotated[
    int | None,
    Option(
        "Maximum number of documents, or of examples of a task, in each language.",
        metavar="N",
        low=1,
    ),
]
Tasks = Annotated[
    parameters.Languages | None,
    Option(
        "Tasks, separated by commas: built-in suites, also by letter (mmlu:letters), or lm-eval "
        "tasks.",
        kind=str,
        metavar="NAME,...",
        accepts=parameters.CODES,
    ),
]
Pairs = Annotated[
    str | None,
    Option(
        "Language pairs such as en-fr, or all; by default, English to each other language.",
        metavar="FROM-TO,...",
    ),
]
TaskData = Annotated[
    parameters.FilePath,
    Option(
        "Directory with evaluation data, see modtok eval fetch.",
        flags="--eval-data",
        metavar="PATH",
    ),
]
Shared = Annotated[
    "Processes | None",
    Option("Processes that share the work; by default this one.", python_only=True, kind=object),
]
KeptRows = Annotated[
    "Kept | None",
    Option("Rows of earlier calls, which are not computed again.", python_only=True, kind=object),
]


class EvaluationOptions(TypedDict, total=False):
    """The options that all evaluations have: modes, the model, and the work on it."""

    infer: Infer
    limit: Limit
    step: Step
    tokenizer: RunTokenizer
    dtype: Dtype
    processes: Shared
    kept: KeptRows
    progress: Progress
