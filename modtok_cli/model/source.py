"""Sources of a model: a run, a slice, or a directory of a model of transformers."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import torch

from modtok_cli.base.signature import digest
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.model.generate.backbone import build_backbone
from modtok_cli.model.vocabularies import Ends, Side, Vocabularies
from modtok_cli.tokenizer.subtokenizer import Subtokenizer

SLICE, OWN = "slice", "model"
"""Inference modes of sources with one: both sides of a slice, the model's."""

Sides = tuple[tuple[str, ...] | str, tuple[str, ...] | str | None]
"""Input and output vocabulary: languages or "full"; outputs None are the inputs."""


@dataclass(frozen=True)
class Chat:
    """How a model of modtok speaks in conversations, in rows of its tables.

    Attributes:
        template: of messages; None if there is none.
        ends: what ends an answer.
        begin, end: the tokens that transformers calls bos and eos; None: the end of text.
    """

    template: str | None
    ends: tuple[int, ...]
    begin: int | None = None
    end: int | None = None


Spoken = tuple[Subtokenizer, Ends, Mapping[str, str]]
"""What an export says of text: tokenizer, the tokens that end it, chat templates by name."""


class ModelSource(ABC):
    """A model on disk; rows and backbone are read as they are needed.

    Attributes:
        path: its directory.
        mode: name of its inference mode if none is chosen.
        sides: input and output vocabulary if none are chosen; None: by the language of the text.
        whole: whether transformers runs it as it is, with its only vocabulary.
        modular: directory of the modular tokenizer that any vocabulary can be chosen of.
    """

    path: Path
    mode: str
    sides: Sides | None = None
    whole = False
    modular: Path | None = None

    @cached_property
    @abstractmethod
    def shape(self) -> Shape:
        """The model without its tables."""

    @cached_property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """Dtype to compute in, unless another is chosen."""

    @cached_property
    @abstractmethod
    def context(self) -> int:
        """Maximum number of tokens."""

    @cached_property
    @abstractmethod
    def languages(self) -> tuple[str, ...]:
        """Languages that it reads."""

    @cached_property
    @abstractmethod
    def digest(self) -> str:
        """Name, and digest of what decides what the model computes."""

    @cached_property
    def begins(self) -> str:
        """The beginning of every text, in signatures."""
        return "end-of-text"

    @property
    def hf_path(self) -> Path | None:
        """The directory that transformers opens."""
        return self.path

    @cached_property
    def all_languages(self) -> tuple[str, ...]:
        """Languages that it reads or writes."""
        return self.languages

    @property
    def place(self) -> Path:
        """Where its weights are, for messages."""
        return self.path

    @abstractmethod
    def labels(self) -> dict[str, Any]:
        """Fields of rows of scores: how it was trained. Models of one `recipe` differ in seed."""

    @abstractmethod
    def vocabularies(self, inputs: Side, outputs: Side) -> Vocabularies:
        """Both vocabularies.

        Raises:
            UsageError: a language that it does not have.
        """

    @abstractmethod
    def end_of_text(self, vocabularies: Vocabularies) -> int:
        """Row of the token between documents."""

    def chat(self, vocabularies: Vocabularies) -> Chat | None:
        """How a model of modtok speaks in conversations, if it does."""
        return None

    def spoken(self, vocabularies: Vocabularies) -> Spoken:
        """Tokenizer, ends of texts and chat templates, for an export; here as in training."""
        chat = self.chat(vocabularies)
        template, stops = (None, ()) if chat is None else (chat.template, chat.ends)
        end = self.end_of_text(vocabularies)  # in training, every text follows one
        turn, message = [*(each for each in stops if each != end), None, None][:2]
        ends = Ends(end, end, end, adds_begin=True, turn=turn, message=message)
        return vocabularies.tokenizer_in, ends, {} if template is None else {"default": template}

    @abstractmethod
    def tables(self, vocabularies: Vocabularies) -> tuple[torch.Tensor, torch.Tensor]:
        """Input rows (n, d) and output rows (|V_out|, d); one tensor if they are the same."""

    @abstractmethod
    def parameters(self) -> Mapping[str, torch.Tensor]:
        """Parameters of the backbone under their transformers names, whole."""

    def backbone(self, dtype: torch.dtype, device: torch.device) -> Any:
        """The backbone of transformers, which takes embeddings."""
        weights = {
            name: tensor.to(device=device, dtype=dtype)
            for name, tensor in self.parameters().items()
        }
        where = str(self.place)
        return build_backbone(self.shape, weights, where, context=self.context).to(device)


def directory_digest(path: Path) -> str:
    """Digest of the files of a model directory that decide what it computes.

    Of weights, configuration and tokenizer as they are: a slice may have been trained further.
    """
    chosen = (file for file in path.iterdir() if file.suffix in _OF_MODEL and file.is_file())
    parts = []
    for file in sorted(chosen):
        state = file.stat()
        content = _file_digest(file.resolve(), state.st_size, state.st_mtime_ns)
        parts += [file.name.encode(), content.encode()]
    return digest(*parts)


_OF_MODEL = frozenset({".safetensors", ".json", ".model", ".bin"})


@cache
def _file_digest(path: Path, size: int, changed: int) -> str:
    """SHA-256 of a file, read again when it has changed."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
