"""A Hugging Face model directory as the source of an export."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from modtok_cli.architectures.hf_config import count
from modtok_cli.architectures.hf_directory import HfDirectory, is_hf_directory, open_hf_directory
from modtok_cli.architectures.shape import Shape
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.reading import read_file, read_object
from modtok_cli.inference.backbone import build_backbone
from modtok_cli.inference.export_format import Ends
from modtok_cli.inference.model_configs import CHAT_TEMPLATE, TOKENIZER_CONFIG
from modtok_cli.inference.slicefile import NAME
from modtok_cli.inference.source import Side
from modtok_cli.inference.vocabularies import Vocabularies
from modtok_cli.modular.adopted.adopt import read_tokenizer_file
from modtok_cli.modular.adopted.segmenter import Library
from modtok_cli.modular.encoding.library import LibraryEncoder
from modtok_cli.modular.subtokenizer import Subtokenizer

_LIMIT = 1 << 26


def is_foreign(path: Path) -> bool:
    """Whether `path` is a model of transformers that is not a slice of a run."""
    return is_hf_directory(path) and not (path / NAME).is_file()


class HfSource:
    """A model of a supported architecture with its own tokenizer, whole or sliced.

    Raises:
        UsageError: it has no tokenizer, its architecture is not supported, or its tokenizer's
            type.
        ModtokError: a file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._directory: HfDirectory = open_hf_directory(path)
        self._config = self._directory.config

    @cached_property
    def shape(self) -> Shape:
        """The model without its tables."""
        return self._directory.shape

    @property
    def context(self) -> int:
        """Maximum number of tokens."""
        return count(self._config, "max_position_embeddings")

    @cached_property
    def tokenizer(self) -> Subtokenizer:
        """The model's own tokenizer, with its own ids."""
        return Subtokenizer(Library(read_tokenizer_file(self.path)), name=self.path.name)

    def vocabularies(self, inputs: Side, outputs: Side) -> Vocabularies:
        """Its vocabulary on both sides.

        Raises:
            UsageError: languages are named: it has none.
        """
        if inputs is not None or outputs is not None:
            raise UsageError(
                "a model of transformers has no languages",
                where=str(self.path),
                remedy="slice it first: modtok slice MODEL --langs fr",
            )
        return Vocabularies(self.tokenizer, self.tokenizer)

    def tables(self, vocabularies: Vocabularies) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of the tokens, without those that only fill the table up.

        Raises:
            ModtokError: a token has no row.
        """
        size, rows = self.tokenizer.size, self._config.get("vocab_size")
        if type(rows) is not int or rows < size:
            raise ModtokError(
                f"has {rows} rows for {size} tokens",
                where=str(self.path),
                remedy="slice the model, or resize its table",
            )
        embedding = self._directory.table("input")[:size]
        if self.shape.tied:
            return embedding, embedding
        return embedding, self._directory.table("output")[:size]

    def backbone(self, dtype: torch.dtype, device: torch.device) -> Any:
        """The backbone without a table."""
        weights = {
            name: tensor.to(device=device, dtype=dtype)
            for name, tensor in self._directory.backbone.items()
        }
        context = self.context
        return build_backbone(self.shape, weights, str(self.path), context=context).to(device)

    def ends(self) -> Ends:
        """The tokens that begin and end a text, and whether the tokenizer adds the first.

        Raises:
            UsageError: the configuration names no token that ends a text.
        """
        token = self._directory.token_id
        end = token("eos_token_id", "bos_token_id")
        if end is None:
            raise UsageError("field 'eos_token_id' is missing", where=str(self.path))
        begin = token("bos_token_id", "eos_token_id")
        pad = token("pad_token_id", "eos_token_id")
        file = self.tokenizer.segmenter
        assert isinstance(file, Library)
        library = LibraryEncoder(file.to_json({}), str(self.path))
        return Ends(
            begin=end if begin is None else begin,
            end=end,
            pad=end if pad is None else pad,
            adds_begin=library.first_of_text() == begin,
        )

    def chat_template(self) -> str | None:
        """Its chat template, if it has one."""
        if (self.path / CHAT_TEMPLATE).is_file():
            return read_file(self.path / CHAT_TEMPLATE, largest=_LIMIT).decode(errors="replace")
        if not (self.path / TOKENIZER_CONFIG).is_file():
            return None
        found = read_object(self.path / TOKENIZER_CONFIG, largest=_LIMIT).get("chat_template")
        return found if isinstance(found, str) else None
