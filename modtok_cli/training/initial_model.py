"""Initial weights from a model directory of transformers, with another tokenizer or its own."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import torch

from modtok_cli.architectures.hf_directory import TOKENIZER, HfDirectory
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import Progress
from modtok_cli.base.reading import read_file
from modtok_cli.modular.adopted.restrict import vocabulary_of
from modtok_cli.modular.adopted.segmenter import ModularLibrary
from modtok_cli.modular.segmenters.json_frame import parse_document
from modtok_cli.modular.spelling import LibraryVocabulary, Spelling
from modtok_cli.modular.tokenizer import ModularTokenizer
from modtok_cli.training.checkpoint.reading import BACKBONE_PARTS, reshard
from modtok_cli.training.config import Origin
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.model import megatron
from modtok_cli.training.model.model import Model
from modtok_cli.training.rows.growth import grow_rows

# Special tokens that start or end a text, by table: the model reads one and predicts the other.
_ENDS = {
    "table": ("bos_token_id", "eos_token_id"),
    "input": ("bos_token_id", "eos_token_id"),
    "output": ("eos_token_id", "bos_token_id"),
}
_ROWS = "new_rows"


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
        name = re.sub(r"[^A-Za-z0-9._+-]+", "-", self.directory.path.resolve().name)[:100]
        return Origin(name.lstrip("._+-") or "model", self.directory.shape)

    @cached_property
    def vocabulary(self) -> LibraryVocabulary:
        """Its tokens.

        Raises:
            ModtokError: tokenizer.json is damaged or of a kind that is not supported.
        """
        path = self.directory.path / TOKENIZER
        return LibraryVocabulary(read_file(path), str(path))

    def check(self, new: ModularTokenizer, *, train: str) -> None:
        """Check that there is something to train.

        Raises:
            UsageError: `train` is "rows" and the model has every token.
        """
        if train == "rows" and not bool(self.new_rows(new).any()):
            raise UsageError(
                "the tokenizer has no token that is new", where="--train rows",
                remedy="use --train all",
            )  # fmt: skip

    def new_rows(self, new: ModularTokenizer) -> torch.Tensor:
        """Which tokens the model does not have; (V,) bool."""
        return torch.from_numpy(self._spelling(new, "input", encode=False).lengths == 0)

    def as_json(self, new: ModularTokenizer) -> dict[str, Any]:
        """What the config.json of the run stores of it; `stored_rows` reads the rows."""
        packed = np.packbits(self.new_rows(new).numpy())
        return {
            "model": str(self.directory.path),
            "architecture": self.directory.shape.architecture,
            _ROWS: b64encode(packed.tobytes()).decode(),
        }

    def initialize(self, model: Model, new: ModularTokenizer, *, rows: str, note: Progress) -> None:
        """Set the weights of `model`, one tensor at a time. Every rank calls it.

        `rows`: "spelling" or "random", see `--init-rows`.

        Raises:
            ModtokError: a weight is missing, unknown, damaged or of another size.
        """
        where = str(self.directory.path)
        try:
            with torch.no_grad():
                for name, whole in self.directory.shape.from_hf(self.directory.backbone):
                    split = megatron.partition(model.backbone.parameters[name])
                    mine = reshard([whole], split, model.ranks)
                    zeros = {part: torch.zeros_like(mine) for part in BACKBONE_PARTS}
                    model.optimizer.load(name, {**zeros, "weight": mine})
                model.optimizer.set_steps(0)
        except ModtokError as error:
            raise ModtokError(error.what, where=error.where or where) from error
        kept = int((~self.new_rows(new)).sum())
        for name, table in model.tables.items():
            old = self.directory.table(name)
            spelling = self._spelling(new, name, encode=rows == "spelling")
            if len(spelling.ids) and int(spelling.ids.max()) >= len(old):
                raise ModtokError(
                    f"token {spelling.ids.max()} of {TOKENIZER} has no row", where=where
                )
            grow_rows(table, [old], spelling, scaled=False)
        note.note(
            f"initial weights from {where}; {kept:,} of {new.size:,} embedding rows carried over"
        )

    def _spelling(self, new: ModularTokenizer, table: str, *, encode: bool) -> Spelling:
        """Ids of the model for each token, the end of text included.

        A tokenizer that was adopted from the model's has its ids.
        """
        if isinstance(new.segmenter, ModularLibrary) and self._is_own(new.segmenter):
            return Spelling(np.arange(new.size, dtype=np.int32), np.arange(new.size + 1))
        found = self.vocabulary.spell(new.vocabulary, encode=encode)
        end = SubtokenizerCache(new).end_of_text
        index = self.directory.token_id(*_ENDS[table])
        if index is None or found.lengths[end]:
            return found
        at = int(found.offsets[end])
        ids = np.insert(found.ids, at, index).astype(np.int32)
        offsets = found.offsets.copy()
        offsets[end + 1 :] += 1
        return Spelling(ids, offsets)

    def _is_own(self, segmenter: ModularLibrary) -> bool:
        path = self.directory.path / TOKENIZER
        document = parse_document(read_file(path), str(path))
        return segmenter.file.ids == vocabulary_of(document, str(path))


def stored_rows(stored: Mapping[str, Any], size: int) -> torch.Tensor:
    """The new rows of a run, (size,) bool; `stored` is what `InitialModel.as_json` returned.

    Raises:
        ModtokError: the field is damaged.
    """
    try:
        packed = np.frombuffer(b64decode(stored[_ROWS], validate=True), np.uint8)
        if len(packed) != (size + 7) // 8:
            raise ValueError
    except (KeyError, TypeError, ValueError, Base64Error) as error:
        raise ModtokError(f"field 'initial.{_ROWS}' is damaged", where="config.json") from error
    return torch.from_numpy(np.unpackbits(packed, count=size).astype(np.bool_))
