"""Read a directory of `modtok slice`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from modtok_cli.architectures.shape import Shape
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.reading import read_bounded
from modtok_cli.inference.backbone import build_backbone
from modtok_cli.inference.slicefile import NAME, TOKENIZER_OUT, WEIGHTS, SliceFacts, read_facts
from modtok_cli.inference.source import Side, is_full
from modtok_cli.inference.vocabularies import Vocabularies
from modtok_cli.modular.open import open_bytes
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.text.labels import matching
from modtok_cli.text.languages import canonical

_REMEDY = "slice the run again"


class SliceSource:
    """A directory of `modtok slice`, for its own languages only."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.facts: SliceFacts = read_facts(path)

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of the input side."""
        return self.facts.inputs

    @property
    def context(self) -> int:
        """Tokens of a training sequence."""
        return self.facts.context

    @property
    def shape(self) -> Shape:
        """The model without its tables."""
        return self.facts.shape

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the file."""
        dtype: torch.dtype = getattr(torch, self.facts.dtype)
        return dtype

    @property
    def signature(self) -> str:
        """Tokenizer and step of the run."""
        return f"{self.facts.tokenizer}/{self.facts.step}"

    def vocabularies(self, inputs: Side, outputs: Side) -> Vocabularies:
        """Both sides of the slice.

        Raises:
            UsageError: other languages than its own.
            ModtokError: a tokenizer is damaged or does not fit.
        """
        facts = self.facts
        for wanted, own, full in (
            (inputs, facts.inputs, facts.full_inputs),
            (outputs, facts.outputs, facts.full_outputs),
        ):
            if wanted is None or (full and is_full(wanted)):
                continue
            given = {*([wanted] if isinstance(wanted, str) else wanted)}
            names = {label for name in given for label in matching(name, own) or [name]}
            if names != set(own):
                raise UsageError(
                    f"has {','.join(own)} only, not {','.join(sorted(map(canonical, given)))}",
                    where=str(self.path),
                    remedy="pass the run, or slice it again",
                )
        reading = _plain(self.path / "tokenizer.json", self.facts.inputs)
        if self.facts.row_of_in is None or self.facts.row_of_out is None:
            self._check_size("ids", len(self.facts.ids), reading)
            return Vocabularies(reading, reading)
        writing = _plain(self.path / TOKENIZER_OUT, self.facts.outputs)
        self._check_size("row_of_in", len(self.facts.row_of_in), reading)
        self._check_size("row_of_out", len(self.facts.row_of_out), writing)
        return SliceVocabularies(reading, writing, self.facts)

    def _check_size(self, field: str, count: int, tokenizer: Subtokenizer) -> None:
        if count != tokenizer.size:
            raise ModtokError(
                f"field '{field}' has {count} entries, {tokenizer.name} {tokenizer.size} tokens",
                where=str(self.path / NAME),
                remedy=_REMEDY,
            )

    def end_of_text(self, vocabularies: Vocabularies) -> int:
        """Special tokens have the same ids on both sides."""
        return self.facts.end_of_text

    @cached_property
    def _file(self) -> Any:
        try:
            return safe_open(self.path / WEIGHTS, framework="pt")
        except (OSError, SafetensorError) as error:
            where = str(self.path / WEIGHTS)
            raise ModtokError(f"cannot be read ({error})", where=where, remedy=_REMEDY) from None

    def tables(self, vocabularies: Vocabularies) -> tuple[torch.Tensor, torch.Tensor]:
        """The tables of the file."""
        embedding = self._table("model.embed_tokens.weight", len(self.facts.ids))
        if self.facts.tied:
            return embedding, embedding
        return embedding, self._table("lm_head.weight", vocabularies.tokenizer_out.size)

    def _table(self, name: str, rows: int) -> torch.Tensor:
        where = str(self.path / WEIGHTS)
        try:
            table: torch.Tensor = self._file.get_tensor(name)
        except SafetensorError as error:
            raise ModtokError(f"cannot be read ({error})", where=where, remedy=_REMEDY) from error
        if table.shape != (rows, self.facts.shape.hidden_size) or not table.is_floating_point():
            raise ModtokError(
                f"'{name}' is {table.dtype} {tuple(table.shape)}, "
                f"expected {(rows, self.facts.shape.hidden_size)}",
                where=where,
                remedy=_REMEDY,
            )
        return table

    def backbone(self, dtype: torch.dtype, device: torch.device) -> Any:
        """The backbone with the parameters of the file."""
        names = [name for name in self._file.keys() if name.startswith("model.")]  # noqa: SIM118
        weights = {
            name.removeprefix("model."): self._file.get_tensor(name).to(device=device, dtype=dtype)
            for name in names
            if name != "model.embed_tokens.weight"
        }
        where = str(self.path / WEIGHTS)
        return build_backbone(self.facts.shape, weights, where, context=self.context).to(device)


class SliceVocabularies(Vocabularies):
    """Two sides from two files, joined by the id map of the slice."""

    def __init__(self, reading: Subtokenizer, writing: Subtokenizer, facts: SliceFacts) -> None:
        super().__init__(reading, writing)
        assert facts.row_of_in is not None
        assert facts.row_of_out is not None
        self.__dict__["ids"] = facts.ids
        self.__dict__["row_of_in"] = facts.row_of_in
        self.__dict__["row_of_out"] = facts.row_of_out


def _plain(path: Path, languages: Sequence[str]) -> Subtokenizer:
    try:
        data = read_bounded(path)
    except OSError as error:
        raise ModtokError(f"cannot be read: {error.strerror}", where=str(path)) from error
    found = open_bytes(data, str(path), str(path))
    if not isinstance(found, Subtokenizer):
        raise ModtokError("is not a tokenizer of modtok", where=str(path), remedy=_REMEDY)
    found.languages = tuple(languages)
    return found
