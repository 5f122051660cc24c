"""Options shared by the commands that use a trained model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from modtok_cli.base.errors import UsageError
from modtok_cli.cli import completion

LATEST = Path("runs/latest")

Model = Annotated[
    Path,
    Argument(metavar="MODEL", help="Run, checkpoint, slice, or directory of a Hugging Face model."),
]
Step = Annotated[
    int | None,
    Option("--step", metavar="N", min=0, help="Step of the checkpoint; the last one by default."),
]
Gpus = Annotated[
    int,
    Option(
        "--gpus",
        metavar="N",
        min=1,
        help="Number of processes, one per GPU; without GPUs, on the CPU.",
    ),
]
Dtype = Annotated[
    Literal["float32", "bfloat16", "float16"] | None,
    Option("--dtype", help="Dtype of the weights; the dtype of training by default."),
]
RunTokenizer = Annotated[
    Path | None,
    Option(
        "-t",
        "--tokenizer",
        metavar="TOKENIZER",
        autocompletion=completion.tokenizers,
        help="Modular directory of the run; found by the run's settings by default.",
    ),
]


def model_among(arguments: Sequence[str]) -> tuple[Path | None, list[str]]:
    """The argument that is a run, a slice or a model, if there is one, and the others.

    Raises:
        UsageError: two are.
    """
    from modtok_cli.architectures.hf_directory import is_hf_directory
    from modtok_cli.training.rundir import is_run

    models = [name for name in arguments if is_run(Path(name)) or is_hf_directory(Path(name))]
    if len(models) > 1:
        raise UsageError(f"two models given, {models[0]} and {models[1]}", remedy="give one")
    rest = [name for name in arguments if name not in models]
    return (Path(models[0]) if models else None), rest


def require_models(*evaluation: str) -> None:
    """Check that torch, transformers and modules of the extra [eval] are installed.

    Raises:
        UsageError: some are not installed; names all.
    """
    from modtok_cli.base.extras import require

    require(lm=("torch", "transformers"), eval=evaluation)
    import os

    # Disable progress bars and advice of the libraries; the command reports progress itself.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
