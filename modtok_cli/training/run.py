"""A run: its place, its tokenizer and its texts; and its stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.measure.lost import Lost
from modtok_cli.training import checkpoint
from modtok_cli.training.config import Config, Period
from modtok_cli.training.data.conversation import ChatFormat
from modtok_cli.training.data.sampling import Mixture
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.data.text_store import TextStore
from modtok_cli.training.distributed.ranks import Ranks
from modtok_cli.training.initial import Initial
from modtok_cli.training.model.loss import CHUNK
from modtok_cli.training.rundir import RunDirectory


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


@dataclass
class Run:
    """A run, as one of its processes has it.

    Attributes:
        config: its configuration, of the first stage.
        directory, checkpointer: its files.
        ranks, progress: this process among others, and who is told of it.
        tasks: the evaluation of `eval_tasks`.
        tokenizer: the modular directory, which `subtokenizers` have in memory.
        held_out: the text that is evaluated in all stages, for each language of the first stage
            that has it.
        valid: the texts of `--valid` by name and language.
        chat: how conversations become text, None if documents are plain.
        initial: what the weights of a new run come from, if not random.
        only_rows: the rows that `--train rows` trains, (V,) bool.
        recompute: layers that keep no activations.
        chunk: tokens whose logits exist at a time.
        stages: in order.
    """

    config: Config
    directory: RunDirectory
    checkpointer: checkpoint.Checkpointer
    ranks: Ranks
    progress: Progress
    tasks: TaskEvaluation | None
    tokenizer: Path
    subtokenizers: SubtokenizerCache
    held_out: Mapping[str, TextStore] = field(default_factory=dict)
    valid: Mapping[str, Mapping[str, TextStore]] = field(default_factory=dict)
    chat: ChatFormat | None = None
    initial: Initial | None = None
    only_rows: torch.Tensor | None = None
    recompute: int = 0
    chunk: int = CHUNK
    stages: list[Stage] = field(default_factory=list)

    def stage_of(self, step: int) -> Stage:
        """The stage of a step; the last for steps after it."""
        return next((stage for stage in self.stages if step in stage.steps), self.stages[-1])

    def diverged(self, what: str) -> ModtokError:
        """The error of numbers that are not finite; says which checkpoint is there."""
        self.checkpointer.close()  # the one that is being written counts
        last = checkpoint.last_step(self.directory.checkpoints)
        saved = "" if last is None else f"the checkpoint of step {last} is kept; "
        return ModtokError(
            what, where=self.directory.path, remedy=f"{saved}try a lower --lr in another run"
        )


@dataclass
class Stage:
    """A stage of a run: its steps and configuration, its text, and the mixture.

    `stores` have the names of `Mixture.of_texts`; `tokens_before` are those of earlier stages.
    `lost` is what the tokenizer cannot write of evaluated text, see `heldout.lost_texts`.
    """

    run: Run
    period: Period
    stores: Mapping[str, TextStore]
    mixture: Mixture
    tokens_before: int = 0
    lost: Mapping[str, Mapping[str, Lost]] = field(default_factory=dict)

    @property
    def config(self) -> Config:
        """The configuration in its steps."""
        return self.period.config

    @property
    def steps(self) -> range:
        """Its steps, of those of the run."""
        return self.period.steps

    @property
    def text(self) -> dict[str, Any]:
        """The record of its text in config.json."""
        sums = {name: store.checksum for name, store in self.stores.items()}
        return {"mixture": self.mixture.as_dict(), "text": sums}

    def tokens_at(self, step: int) -> int:
        """Tokens that the run has trained on after a step of this stage."""
        return self.tokens_before + (step + 1 - self.steps.start) * self.config.step_tokens
