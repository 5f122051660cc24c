"""Any causal language model of transformers as a source: its own tokenizer, on both sides."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from modtok_cli.architectures.hf_directory import TOKENIZER, HfDirectory, open_hf_directory
from modtok_cli.base.errors import UsageError
from modtok_cli.base.reading import read_file, read_object
from modtok_cli.inference.causal_lm import CausalLM
from modtok_cli.inference.model_configs import CONFIGS
from modtok_cli.inference.source import Side, is_full
from modtok_cli.inference.vocabularies import Vocabularies
from modtok_cli.modular.adopted.adopt import read_tokenizer_file
from modtok_cli.modular.adopted.segmenter import Library
from modtok_cli.modular.open import open_bytes
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.text.labels import matching

OWN = "model"
"""Inference mode of such a model: its own vocabulary."""
_DTYPES = ("float32", "bfloat16", "float16")


class DirectorySource:
    """A directory of `save_pretrained`, of a model that predicts the next token.

    Raises:
        UsageError: it is none, or has no tokenizer.json.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._directory: HfDirectory = open_hf_directory(path)

    @cached_property
    def tokenizer(self) -> Subtokenizer:
        """The model's own tokenizer, with its own ids.

        Raises:
            UsageError: its type is not supported.
        """
        file = self.path / TOKENIZER
        found = open_bytes(read_file(file), str(file), str(file))
        if isinstance(found, Subtokenizer):
            return found
        return Subtokenizer(Library(read_tokenizer_file(self.path)), name=self.path.name)

    @property
    def languages(self) -> tuple[str, ...]:
        """Those that its tokenizer names: none, unless modtok wrote it."""
        return self.tokenizer.languages

    @property
    def dtype(self) -> torch.dtype:
        """Dtype that the configuration names, else float32."""
        config = self._directory.config
        name = config.get("dtype") or config.get("torch_dtype")
        return getattr(torch, name) if name in _DTYPES else torch.float32

    def opened(
        self, dtype: torch.dtype | None = None, device: torch.device | str = "cpu"
    ) -> CausalLM:
        """The model, which is not in memory yet."""
        return CausalLM(self.path, dtype=dtype, device=device)

    @cached_property
    def signature(self) -> str:
        """Name and digest of the model."""
        return self.opened().name

    @cached_property
    def first(self) -> int:
        """Id of the token that begins a text."""
        return self.opened().first

    def ends(self) -> frozenset[int]:
        """Ids of the tokens that end a text."""
        found: list[Any] = []
        for name in CONFIGS:
            if (self.path / name).is_file():
                ids = read_object(self.path / name, largest=1 << 26).get("eos_token_id")
                found += ids if isinstance(ids, list) else [ids]
        return frozenset(one for one in found if type(one) is int) or frozenset({self.first})

    @cached_property
    def context(self) -> int:
        """Maximum number of tokens."""
        return self.opened().longest

    def vocabularies(self, inputs: Side, outputs: Side) -> Vocabularies:
        """Its vocabulary on both sides.

        Raises:
            UsageError: other languages than its own are named.
        """
        own = self.languages
        for side in (inputs, outputs):
            if side is None or is_full(side):
                continue
            names = [side] if isinstance(side, str) else side
            if {label for name in names for label in matching(name, own) or [name]} != set(own):
                raise UsageError(
                    f"has {','.join(own)} only" if own else "is a model without languages",
                    where=str(self.path),
                    remedy="leave --langs, --in, --out and --infer out, or slice it first: modtok "
                    "slice MODEL --langs fr",
                )
        return Vocabularies(self.tokenizer, self.tokenizer)
