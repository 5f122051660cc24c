"""Initial weights from another run, whose tokenizer may be smaller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Progress
from modtok_cli.modular.comparison import containment
from modtok_cli.modular.spelling import spell
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.training import checkpoint
from modtok_cli.training.checkpoint.reading import BACKBONE_PARTS, reshard
from modtok_cli.training.config import Config, Origin
from modtok_cli.training.model import megatron
from modtok_cli.training.model.model import Model
from modtok_cli.training.rows.growth import grow_rows
from modtok_cli.training.run_tokenizer import find_tokenizer
from modtok_cli.training.rundir import CONFIG, RunDirectory


@dataclass(frozen=True)
class InitialRun:
    """A run whose last checkpoint gives the initial weights of another.

    Attributes:
        directory: the run.
        facts: the content of its config.json.
        config: its configuration.
    """

    directory: RunDirectory
    facts: Mapping[str, Any]
    config: Config

    @staticmethod
    def open(path: Path) -> InitialRun:
        """Read the configuration of a run.

        Raises:
            UsageError: `path` is no run.
            ModtokError: its configuration is damaged.
        """
        directory = RunDirectory(path)
        if not (path / CONFIG).is_file():
            raise UsageError(
                "is not a run", where=str(path), remedy="give a directory that pretrain wrote"
            )
        facts = directory.read_config()
        config = Config.from_json(facts["config"], str(path / CONFIG))
        return InitialRun(directory, facts, config)

    @property
    def languages(self) -> list[str]:
        """Languages of its tokenizer."""
        return [str(language) for language in self.facts["tokenizer"]["languages"]]

    @cached_property
    def tokenizer(self) -> ModularTokenizer:
        """The tokenizer that it was trained with.

        Raises:
            UsageError: it was not found.
        """
        remedy = "put the tokenizer directory back beside the run"
        path = find_tokenizer(self.directory.path, self.facts["tokenizer"], remedy=remedy)
        return ModularTokenizer.load(path)

    @property
    def origin(self) -> Origin:
        """Name and shape of the model."""
        return Origin(self.config.model, self.config.shape)

    def new_rows(self, new: ModularTokenizer) -> torch.Tensor:
        """Which tokens none of its languages has; (V,) bool."""
        return new_rows(new, self.languages)

    def as_json(self, new: ModularTokenizer) -> dict[str, Any]:
        """What the config.json of the new run stores of it."""
        return {
            "run": str(self.directory.path),
            "signature": self.facts["tokenizer"]["signature"],
            "languages": self.languages,
        }

    def check(self, new: ModularTokenizer, *, train: str) -> None:
        """Check that the new tokenizer can continue this run.

        Raises:
            UsageError: `train` is "rows" and the new tokenizer changes an old language, or has
                no new token.
        """
        if train == "all":
            return
        found = containment(new, self.tokenizer)
        if not found.holds:
            raise UsageError(
                f"the tokenizer does not contain the one of {self.directory.path}: {found.reason}",
                where="--train rows",
                remedy="append languages with modtok bpe-seq --append, or use --train all",
            )
        if not bool(self.new_rows(new).any()):
            raise UsageError(
                "the tokenizer has no token that is new",
                where="--train rows",
                remedy="append a language with modtok bpe-seq --append, or use --train all",
            )

    def initialize(self, model: Model, new: ModularTokenizer, *, rows: str, note: Progress) -> None:
        """Set the weights of `model`; moments and step counts stay zero. Every rank calls it.

        `rows`: "spelling" or "random", see `--init-rows`.

        Raises:
            ModtokError: the run has no sound checkpoint.
        """
        found = checkpoint.newest(self.directory.checkpoints, note)
        if found is None:
            raise ModtokError("has no checkpoint yet", where=str(self.directory.path))
        path, state = found
        try:
            shards = checkpoint.open_shards(path, state)
            with torch.no_grad():
                for name, parameter in model.backbone.parameters.items():
                    parts = [file.get_tensor(f"backbone.weight/{name}") for file in shards]
                    whole = reshard(parts, megatron.partition(parameter), model.ranks)
                    zeros = {part: torch.zeros_like(whole) for part in BACKBONE_PARTS}
                    model.optimizer.load(name, {**zeros, "weight": whole})
                model.optimizer.set_steps(0)
            self._initialize_tables(model, new, shards, rows)
        except (SafetensorError, RuntimeError) as error:
            raise ModtokError(f"is of another model ({error})", where=str(path)) from error
        carried = int((spell(new.vocabulary, self.tokenizer.full(), encode=False).lengths).sum())
        note.note(
            f"initial weights from {path}; {carried:,} of {new.size:,} embedding rows carried over"
        )

    def _initialize_tables(
        self,
        model: Model,
        new: ModularTokenizer,
        shards: Sequence[checkpoint.ShardFile],
        rows: str,
    ) -> None:
        spelling = spell(new.vocabulary, self.tokenizer.full(), encode=rows == "spelling")
        for name, table in model.tables.items():
            old = [file.get_tensor(f"{name}.weight") for file in checkpoint.row_files(shards)]
            grow_rows(table, old, spelling)


def new_rows(tokenizer: ModularTokenizer, old_languages: Sequence[str]) -> torch.Tensor:
    """Which tokens no old language has; (V,) bool. Special tokens and bytes are in every one."""
    columns = [tokenizer.languages.index(language) for language in old_languages]
    return torch.from_numpy(~tokenizer.token_membership[:, columns].any(axis=1))
