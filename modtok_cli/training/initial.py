"""Initial weights from another model (`--init-from`): a run, or a directory of transformers.

The run's tokenizer may be smaller. A model of transformers may have another tokenizer.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError

from modtok_cli.base.errors import ModtokError, UsageError, missing
from modtok_cli.base.hub import model_name, name_of
from modtok_cli.base.progress import Progress
from modtok_cli.model.architecture import token_rows
from modtok_cli.model.architecture.complete import check_complete
from modtok_cli.model.architecture.megatron_layout import from_hf
from modtok_cli.model.architecture.stored_model import (
    HfDirectory,
    is_hf_directory,
    open_hf_directory,
)
from modtok_cli.tokenizer.adopted.restrict import vocabulary_of
from modtok_cli.tokenizer.adopted.segmenter import ModularLibrary
from modtok_cli.tokenizer.containment import containment
from modtok_cli.tokenizer.modular_tokenizer import ModularTokenizer
from modtok_cli.tokenizer.spelling import Spelling, spell, spell_by_merges
from modtok_cli.training import checkpoint
from modtok_cli.training.checkpoint.read import BACKBONE_PARTS, JoinedRows, own_part
from modtok_cli.training.config import Config
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.model.model import Model
from modtok_cli.training.resolve import Origin
from modtok_cli.training.rows.growth import grow_rows
from modtok_cli.training.rundir import (
    CHAT,
    CONFIG,
    GRAFTED,
    METRICS,
    NEW_ROWS,
    RunDirectory,
    find_tokenizer,
    new_rows,
    trained_languages,
)
from modtok_cli.training.settings import RunSettings
from modtok_cli.training.stored_config import at_step, config_from_json


def open_initial(path: Path) -> Initial:
    """Open what `--init-from` names.

    Raises:
        UsageError: it is neither a run nor a model of an architecture that is supported.
        ModtokError: its configuration is damaged.
    """
    if is_hf_directory(path):
        directory = open_hf_directory(path)
        check_complete(directory)
        return InitialModel(directory)
    if (path / METRICS).is_file() and (path / CONFIG).is_file():
        return InitialRun.open(path)
    remedy = "give a directory that pretrain or transformers' save_pretrained wrote"
    raise missing(path, remedy, "is not a run, nor a model in safetensors")


def origin_of(settings: RunSettings) -> Origin | None:
    """The model of `--init-from`, None without it; raises as `open_initial`."""
    return open_initial(settings.init.init_from).origin if settings.init.init_from else None


def trained_rows(stored: Mapping[str, Any], tokenizer: ModularTokenizer) -> torch.Tensor:
    """Rows that `--train rows` trains, (V,) bool; `stored` is "initial" of config.json."""
    if "languages" in stored:
        return _new_rows(tokenizer, stored["languages"])
    return torch.from_numpy(new_rows(stored, tokenizer.size))


def _new_rows(tokenizer: ModularTokenizer, old_languages: Sequence[str]) -> torch.Tensor:
    """Which tokens no old language has; (V,) bool. Special tokens and bytes are in every one."""
    columns = [tokenizer.languages.index(language) for language in old_languages]
    return torch.from_numpy(~tokenizer.token_membership[:, columns].any(axis=1))


def _load_backbone(
    model: Model, name: str, shards: Sequence[JoinedRows] | Sequence[torch.Tensor]
) -> None:
    """Set a parameter from the parts of all shards; moments stay zero. Collective."""
    own = own_part(model, name, shards)
    zeros = {part: torch.zeros_like(own) for part in BACKBONE_PARTS}
    model.optimizer.load(name, {**zeros, "weight": own})


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
        """Read the configuration of a run."""
        directory = RunDirectory(path)
        last = checkpoint.last_step(directory.checkpoints) or 0
        where = str(path / CONFIG)
        facts = at_step(directory.read_config(), last, where)
        return InitialRun(directory, facts, config_from_json(facts["config"], where))

    @property
    def languages(self) -> list[str]:
        """Languages whose rows belong to its backbone: those trained, or those grafted."""
        if GRAFTED in self.facts:
            return [str(language) for language in self.facts[GRAFTED]["languages"]]
        return list(trained_languages(self.facts, self.tokenizer))

    @cached_property
    def tokenizer(self) -> ModularTokenizer:
        """The tokenizer that it was trained with."""
        remedy = "put the tokenizer directory back beside the run"
        path = find_tokenizer(self.directory.path, self.facts["tokenizer"], remedy=remedy)
        return ModularTokenizer.load(path)

    @property
    def origin(self) -> Origin:
        """Name and shape of the model."""
        return Origin(self.config.architecture.model, self.config.shape)

    def new_rows(self, new: ModularTokenizer) -> torch.Tensor:
        """Which tokens none of `languages` has; (V,) bool."""
        return _new_rows(new, self.languages)

    def as_json(self, new: ModularTokenizer) -> dict[str, Any]:
        """The record in the config.json of the new run."""
        chat = self.facts.get("initial", {}).get(CHAT)
        return {
            "run": str(self.directory.path),
            "signature": self.facts["tokenizer"]["signature"],
            "languages": self.languages,
            **({} if chat is None else {CHAT: chat}),
        }

    def check(self, new: ModularTokenizer, *, train: str) -> None:
        """Check that the new tokenizer can continue this run."""
        if train == "all":
            return
        proof = containment(new, self.tokenizer)
        if not proof.holds:
            raise UsageError(
                f"the tokenizer does not contain the one of {self.directory.path}: {proof.reason}",
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

        `rows`: "spelling" or "random", see `init_rows`.
        """
        newest = checkpoint.newest(self.directory.checkpoints, note, model.ranks)
        if newest is None:
            raise ModtokError("has no checkpoint yet", where=self.directory.path)
        path, state = newest
        spelling = self._spelling(new, encode=rows == "spelling")
        try:
            shards = checkpoint.open_shards(path, state)
            with torch.no_grad():
                for name in model.backbone.parameters:
                    parts = [file.get_slice(f"backbone.weight/{name}") for file in shards]
                    _load_backbone(model, name, parts)
                model.optimizer.set_steps(0)
            for name, table in model.tables.items():
                files = checkpoint.row_files(shards)
                grow_rows(table, [file.get_tensor(f"{name}.weight") for file in files], spelling)
        except (SafetensorError, RuntimeError) as error:
            raise ModtokError(f"is of another model ({error})", where=path) from error
        carried = int(self._spelling(new, encode=False).lengths.sum())
        note.note(
            f"initial weights from {path}; {carried:,} of {new.size:,} embedding rows carried over"
        )

    def _spelling(self, new: ModularTokenizer, *, encode: bool) -> Spelling:
        old, grown = self.tokenizer.segmenter, new.segmenter
        if (
            isinstance(old, ModularLibrary)
            and isinstance(grown, ModularLibrary)
            and old.file.ids.items() <= grown.file.ids.items()
        ):
            same = old.file.ids == grown.file.ids  # new tokens may have the ids of filler rows
            known = old.file.size if same else max(old.file.ids.values()) + 1
            return spell_by_merges(grown.file, known, encode=encode)
        return spell(new.vocabulary, self.tokenizer.full(), encode=encode)


class InitialModel:
    """A model of transformers that gives the initial weights of a run.

    Args:
        directory: its configuration, weights and tokenizer.
    """

    def __init__(self, directory: HfDirectory) -> None:
        self.directory = directory

    @property
    def origin(self) -> Origin:
        """Name and shape of the model."""
        name = re.sub(r"[^A-Za-z0-9._+-]+", "-", model_name(self.directory.path))[:100]
        return Origin(name.lstrip("._+-") or "model", self.directory.shape)

    def check(self, new: ModularTokenizer, *, train: str) -> None:
        """Check that there is something to train."""
        if train == "rows" and not bool(self.new_rows(new).any()):
            raise UsageError(
                "the tokenizer has no token that is new", where="--train rows",
                remedy="use --train all",
            )  # fmt: skip

    def new_rows(self, new: ModularTokenizer) -> torch.Tensor:
        """Which tokens the model does not have, or by transplant only; (V,) bool."""
        found = self._spelling(new, "input", encode=False)
        return torch.from_numpy(token_rows.made_rows(self.directory, found))

    def as_json(self, new: ModularTokenizer) -> dict[str, Any]:
        """The record in the config.json of the run; `trained_rows` reads the rows."""
        packed = np.packbits(self.new_rows(new).numpy())
        return {
            "model": str(self.directory.path),
            "architecture": self.directory.shape.architecture,
            NEW_ROWS: b64encode(packed.tobytes()).decode(),
            **({CHAT: self.directory.chat} if isinstance(new.segmenter, ModularLibrary) else {}),
        }

    def initialize(self, model: Model, new: ModularTokenizer, *, rows: str, note: Progress) -> None:
        """Set the weights of `model`, one tensor at a time. Every rank calls it.

        `rows`: "spelling" or "random", see `init_rows`.
        """
        where = str(self.directory.path)
        self.directory.warn(note)
        try:
            with torch.no_grad():
                for name, whole in from_hf(self.directory.shape, self.directory.backbone):
                    _load_backbone(model, name, [whole])
                model.optimizer.set_steps(0)
        except ModtokError as error:
            raise ModtokError(error.what, where=error.where or where) from error
        carried = int((self._spelling(new, "input", encode=False).lengths > 0).sum())
        tokens = vocabulary_of(self.directory.tokenizer, where)
        kept = self._spelling(new, [*model.tables][-1], encode=False).ids
        filler = {*range(self.directory.vocab_size)}.difference(tokens.values(), kept.tolist())
        if filler:
            note.note(
                f"{name_of(self.directory.path)} has {len(filler):,} rows without a token, which "
                "the run leaves out of its probabilities: its scores are not quite the model's "
                "(with its own tokenizer, adopted, they are)"
            )
        for name, table in model.tables.items():
            old = self.directory.table(name)
            spelling = self._spelling(new, name, encode=rows == "spelling")
            grow_rows(table, [old], spelling, scaled=False)
        note.note(
            f"initial weights from {name_of(where)}; {carried:,} of {new.size:,} embedding rows "
            "carried over"
            + ("; modtok transplant --distill makes better ones of the others"
               if rows == "spelling" and carried < new.size else "")
        )  # fmt: skip

    def _spelling(self, new: ModularTokenizer, table: str, *, encode: bool) -> Spelling:
        """Ids of the model for each token, the end of text included."""
        spelling = token_rows.spelling(self.directory, new.full().segmenter, encode=encode)
        end = SubtokenizerCache(new).end_of_text
        return token_rows.with_end(self.directory, spelling, end, table)


Initial = InitialRun | InitialModel
