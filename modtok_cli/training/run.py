"""A run: its settings, its texts, and its place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.measure.lost import Lost
from modtok_cli.training import checkpoint
from modtok_cli.training.config import Config
from modtok_cli.training.data.conversation import ChatFormat
from modtok_cli.training.data.sampling import Mixture
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.data.text_store import TextStore
from modtok_cli.training.distributed.ranks import Ranks
from modtok_cli.training.initial import Initial
from modtok_cli.training.model.loss import CHUNK
from modtok_cli.training.rundir import RunDirectory


@dataclass(frozen=True)
class RunTexts:
    """The texts of a run: of each language, of `--valid` by name, and how they are split.

    The text is of a stage, in `stores` by the names of `Mixture.of_texts`. `held_out` is the
    text that is evaluated in all of them, for each language of the first stage that has it. `chat`
    says how conversations become text, None if documents are plain.
    """

    subtokenizers: SubtokenizerCache
    stores: Mapping[str, TextStore]
    held_out: Mapping[str, TextStore]
    mixture: Mixture
    valid: Mapping[str, Mapping[str, TextStore]] = field(default_factory=dict)
    chat: ChatFormat | None = None

    @property
    def checksums(self) -> dict[str, int]:
        """Checksum of each text."""
        return {name: store.checksum for name, store in self.stores.items()}


class TaskEvaluation(Protocol):
    """The functions of `evaluate.mcq` for --eval-tasks; it builds on training."""

    def check_tasks(self, config: Config, languages: Sequence[str]) -> list[str]:
        """Check that there are questions; what is missing, in sentences."""

    def evaluate_tasks(
        self,
        config: Config,
        run: Path,
        step: int,
        languages: Sequence[str],
        *,
        device: torch.device,
        progress: Progress,
    ) -> list[Mapping[str, Any]]:
        """Rows of the checkpoint of a step."""


@dataclass(frozen=True)
class RunPlace:
    """Where a run is: its directory, this process among its ranks, who is told of it, and what
    evaluates tasks.
    """

    directory: RunDirectory
    ranks: Ranks
    checkpointer: checkpoint.Checkpointer
    progress: Progress
    tasks: TaskEvaluation | None = None

    def diverged(self, what: str) -> ModtokError:
        """The error of numbers that are not finite; says which checkpoint is there."""
        self.checkpointer.close()  # the one that is being written counts
        last = checkpoint.last_step(self.directory.checkpoints)
        saved = "" if last is None else f"the checkpoint of step {last} is kept; "
        return ModtokError(
            what, where=self.directory.path, remedy=f"{saved}try a lower --lr in another run"
        )


@dataclass
class Run:
    """A stage of a run: settings, texts and place; the tokenizer's directory; what the run starts
    from, if any.

    `number` is 1 for the first stage. The stage trains for `steps`, after `tokens_before`.

    `only_rows` are the rows that `--train rows` trains; `lost` is what the tokenizer cannot write
    of evaluated text, see `heldout.lost_texts`. `recompute` layers keep no activations, and logits
    of `chunk` tokens exist at a time.
    """

    config: Config
    texts: RunTexts
    place: RunPlace
    tokenizer: Path
    initial: Initial | None = None
    only_rows: torch.Tensor | None = None
    lost: Mapping[str, Mapping[str, Lost]] = field(default_factory=dict)
    recompute: int = 0
    chunk: int = CHUNK
    number: int = 1
    steps: range = range(0)
    tokens_before: int = 0

    def tokens_at(self, step: int) -> int:
        """Tokens that the run has trained on after a step of this stage."""
        return self.tokens_before + (step + 1 - self.steps.start) * self.config.step_tokens
