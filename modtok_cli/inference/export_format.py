"""What a file format for another program must provide; `formats/` holds one module for each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from modtok_cli.architectures.shape import Shape
from modtok_cli.modular.subtokenizer import Subtokenizer


class ExportedTokenizer(Protocol):
    """A tokenizer as another program runs it.

    Attributes:
        name: what the program calls it.
        why: reason for different ids, for messages.
    """

    name: str
    why: str

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids that the program assigns."""


@dataclass(frozen=True)
class Ends:
    """The tokens that begin, end and fill up texts.

    Attributes:
        adds_begin: whether `begin` stands before every text.
    """

    begin: int
    end: int
    pad: int
    adds_begin: bool

    @classmethod
    def of_run(cls, end_of_text: int) -> Ends:
        """Every text in training follows an end of text."""
        return cls(end_of_text, end_of_text, end_of_text, adds_begin=True)


@dataclass(frozen=True, eq=False)
class ExportedModel:
    """What a format writes.

    Attributes:
        embedding, head: (|V|, d) input and output rows, one object if tied.
        backbone: parameters under their transformers names, float32.
        chat_template: in the language of Jinja, if there is one.
    """

    shape: Shape
    tokenizer: Subtokenizer
    embedding: torch.Tensor
    head: torch.Tensor
    backbone: Mapping[str, torch.Tensor]
    context: int
    ends: Ends
    chat_template: str | None = None


class ExportFormat(Protocol):
    """One file format.

    Attributes:
        program: program that reads the format, for messages.
    """

    name: str
    program: str

    def tokenizers(self, tokenizer: Subtokenizer, where: str) -> Sequence[Any]:
        """`ExportedTokenizer`s that the program can run, the simplest first.

        Raises:
            UsageError: the program cannot run this tokenizer.
        """

    def write(self, path: Path, model: ExportedModel, tokenizer: Any, dtype: str) -> None:
        """Write the file."""
