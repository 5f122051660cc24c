"""Options shared by the commands that use a trained model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Option

LATEST = Path("runs/latest")

Gpus = Annotated[
    int,
    Option(
        "--gpus",
        metavar="N",
        min=1,
        help="Number of processes, one per GPU; without GPUs, on the CPU.",
    ),
]


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
