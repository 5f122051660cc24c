"""Check that the batches of a step fit in host memory before any of them is made."""

from __future__ import annotations

from modtok_cli.base.memory import check_memory
from modtok_cli.training.config import Config
from modtok_cli.training.data.stream import AHEAD

# A token of a batch: two int32 ids in each queued batch; int64 ids and a weight in the step.
_QUEUED_TOKEN = 8
_STEP_TOKEN = 20
# A slot: its packer and its positions in every language.
_SLOT = 4096


def check_step_memory(config: Config) -> None:
    """Check the batches of all ranks, as if they shared this machine.

    Raises:
        ModtokError: they do not fit in its memory.
    """
    # The shards of a replica have the same batches, each its copy.
    tokens = config.step_tokens * config.tp
    need = tokens * (_QUEUED_TOKEN * (AHEAD + 2) + 2 * _STEP_TOKEN) + config.batch_size * _SLOT
    check_memory(
        need,
        f"batches of {config.batch_size:,} sequences of {config.seq_length:,} tokens",
        "use a smaller --batch-size or --seq-length",
    )
