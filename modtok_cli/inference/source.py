"""What a model is loaded from: a run, a slice, or a directory of a model of transformers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Protocol

import torch

from modtok_cli.architectures.shape import Shape
from modtok_cli.base.signature import digest
from modtok_cli.inference.vocabularies import Ends, Side, Vocabularies
from modtok_cli.modular.subtokenizer import Subtokenizer

LANG, SLICE, OWN = "lang", "slice", "model"
"""Inference modes that sources have by default: by language, both sides of a slice, the model's."""

Sides = tuple[tuple[str, ...] | str, tuple[str, ...] | str | None]
"""Input and output vocabulary: languages or "full"; outputs None are the inputs."""

Spoken = tuple[Subtokenizer, Ends, Mapping[str, str]]
"""What an export says of text: tokenizer, the tokens that end it, chat templates by name."""


class ModelSource(Protocol):
    """A model on disk; rows and backbone are read as they are needed."""

    @property
    def path(self) -> Path:
        """Its directory."""

    @property
    def shape(self) -> Shape:
        """The model without its tables."""

    @property
    def dtype(self) -> torch.dtype:
        """Dtype to compute in, unless another is chosen."""

    @property
    def context(self) -> int:
        """Maximum number of tokens."""

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages that it reads."""

    @property
    def all_languages(self) -> tuple[str, ...]:
        """Languages that it reads or writes."""

    @property
    def begins(self) -> str:
        """What stands before every text, in signatures."""

    @property
    def mode(self) -> str:
        """Name of its inference mode if none is chosen."""

    @property
    def sides(self) -> Sides | None:
        """Input and output vocabulary if none are chosen; None: by the language of the text."""

    @property
    def whole(self) -> bool:
        """Whether transformers runs it as it is, with its only vocabulary."""

    @property
    def modular(self) -> Path | None:
        """Directory of the modular tokenizer that any vocabulary can be chosen of."""

    @property
    def hf_path(self) -> Path | None:
        """The directory that transformers opens."""

    @property
    def digest(self) -> str:
        """Name, and digest of what decides what the model computes."""

    def labels(self) -> dict[str, Any]:
        """Fields of rows of scores: how it was trained. Models of one `recipe` differ in seed."""

    def vocabularies(self, inputs: Side, outputs: Side) -> Vocabularies:
        """Both vocabularies.

        Raises:
            UsageError: a language that it does not have.
        """

    def end_of_text(self, vocabularies: Vocabularies) -> int:
        """Row of the token between documents."""

    def spoken(self, vocabularies: Vocabularies) -> Spoken:
        """Tokenizer, ends of texts and chat templates, for an export."""

    def tables(self, vocabularies: Vocabularies) -> tuple[torch.Tensor, torch.Tensor]:
        """Input rows (n, d) and output rows (|V_out|, d); one tensor if they are the same."""

    def backbone(self, dtype: torch.dtype, device: torch.device) -> Any:
        """The backbone of transformers, which takes embeddings."""


def spoken_in_training(
    vocabularies: Vocabularies, end_of_text: int, chat: tuple[str, int] | None
) -> Spoken:
    """Of a model that modtok trained: every text follows an end of text."""
    template, turn = chat or (None, None)
    templates = {} if template is None else {"default": template}
    return vocabularies.tokenizer_in, Ends.of_run(end_of_text, turn), templates


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
