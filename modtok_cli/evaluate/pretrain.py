"""`modtok pretrain`: a decoder on sampled subtokenizers, with evaluations of tasks as it trains."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Annotated

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Force
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.base.public import public
from modtok_cli.training.settings import RunSettings

if TYPE_CHECKING:
    from modtok_cli.training.loop import RunReport


_RUNNING = Lock()
"""Megatron-Core and torch have the process groups of one run."""


@public
def pretrain(
    settings: RunSettings = RunSettings(),
    *,
    resume: Annotated[bool, Option("Resume runs/latest, or the run of --name.")] = False,
    force: Force = False,
    progress: Progress = SILENT,
) -> RunReport:
    """Pretrain a decoder on sampled subtokenizers.

    Each microbatch is text of one language, tokenized by one subtokenizer, and predicted over
    its vocabulary only. Training runs on Megatron-Core, on GPUs (NCCL) and on the CPU (gloo);
    under torchrun or srun every process is a rank. runs/NAME stores settings, metrics and
    checkpoints.

    Returns:
        `output` (the run's directory), `step`, and held-out figures per language.

    Examples:
        >>> settings = modtok.RunSettings(
        ...     langs="en,fi,fr", sampling="sub:1", steps=3, seq_length=64, batch_size=8,
        ...     name="example",
        ... )
        >>> report = modtok.pretrain(settings)
        >>> report.step, [row["language"] for row in report.lines]
        (3, ['en', 'fi', 'fr'])

    Raises:
        ModtokError, UsageError: the settings, the tokenizer or the text are not usable, the disk
            is full, or the loss is not finite. The last checkpoint stays.
    """
    from modtok_cli.evaluate import mcq
    from modtok_cli.training.loop import finish
    from modtok_cli.training.loop import pretrain as run

    if not _RUNNING.acquire(blocking=False):
        raise UsageError(
            "another run trains in this process", remedy="start a process for each run"
        )
    try:
        return run(settings, resume=resume, force=force, progress=progress, tasks=mcq)
    finally:
        finish()
        _RUNNING.release()
