"""Shared by commands that use a trained model: packages, and `--gpus N`.

With it N processes share the work and print once.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.base.extras import require
from modtok_cli.base.files import standard_input
from modtok_cli.base.processes import MESSAGES
from modtok_cli.cli.command import Call

if TYPE_CHECKING:
    from modtok_cli.model.generate.worker_processes import Processes

# Of other processes: they have nothing to save after one has failed.
_GRACE_SECONDS = 1.0


def require_models(*evaluation: str) -> None:
    """Check that torch, transformers and modules of the extra [eval] are installed.

    Raises:
        UsageError: some are not installed; names all.
    """
    require(lm=("torch", "transformers"), eval=evaluation)
    # Disable progress bars and advice of the libraries; the command reports progress itself.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


@contextmanager
def sharing(call: Call, gpus: int, *, reads_input: bool = False) -> Iterator[Processes]:
    """Context of the shared work; only the first process goes on after it.

    With `--gpus N` this process starts N others with the same command and ends with them. Under
    torchrun or srun, with `--gpus`, this process is one of theirs. `reads_input`: the command
    reads standard input.

    Raises:
        UsageError: processes that torchrun starts cannot all read standard input.
        ModtokError: another process failed, or cannot be reached.
    """
    from modtok_cli.model.generate.worker_processes import AGAIN, ALONE, joined
    from modtok_cli.training.distributed.launch import launch, needs_launch

    if gpus == 1:
        yield ALONE
        return
    if needs_launch(gpus):
        source = standard_input() if reads_input else None
        args = call.session.args
        raise typer.Exit(launch(args, gpus, source=source, grace=_GRACE_SECONDS, remedy=AGAIN))
    if reads_input and MESSAGES not in os.environ:
        raise UsageError(
            "ranks of torchrun and srun cannot share standard input",
            where="--gpus",
            remedy="start the command without torchrun",
        )
    with joined() as processes:
        yield processes
    if not processes.first:
        raise typer.Exit
