"""Where a model comes from: a run, of which any subset can be taken, or a slice, one of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open

from modtok_cli.architectures.shape import Shape
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.inference.backbone import build_backbone
from modtok_cli.inference.run import TrainedRun, is_run, open_run
from modtok_cli.inference.slice_files import without_post_processor
from modtok_cli.inference.slicefile import NAME, TOKENIZER_OUT, WEIGHTS, SliceFacts, read_facts
from modtok_cli.inference.vocabularies import Vocabularies
from modtok_cli.modular.open import open_bytes
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.pretrain.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.text.languages import normalize

FULL = "full"
_REMEDY = "slice the run again"
Side = Sequence[str] | str | None


def is_full(side: Side) -> bool:
    """Whether a side is the whole vocabulary T."""
    return side is not None and (side == FULL or list(side) == [FULL])


class Source(Protocol):
    """What a sliced model is made from."""

    path: Path

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages there are."""

    @property
    def context(self) -> int:
        """Tokens that the model was trained to read at once."""

    @property
    def shape(self) -> Shape:
        """The model without its tables."""

    @property
    def dtype(self) -> torch.dtype:
        """Numbers to compute with."""

    @property
    def signature(self) -> str:
        """Of the modular tokenizer and the step: what decides the weights."""

    def vocabularies(self, inputs: Side, outputs: Side) -> Vocabularies:
        """The two sides; None for `inputs` is all there is, for `outputs` the same as inputs."""

    def end_of_text(self) -> int:
        """Row, and id on both sides, of the token between documents."""

    def tables(self, vocabularies: Vocabularies) -> tuple[torch.Tensor, torch.Tensor]:
        """Input rows (n, d) and output rows (|V_out|, d)."""

    def backbone(self, dtype: torch.dtype, device: torch.device) -> Any:
        """transformers' `LlamaModel` without a table."""


def open_source(
    path: Path,
    *,
    tokenizer: Path | None = None,
    step: int | None = None,
    progress: Progress = SILENT,
) -> Source:
    """A run, a checkpoint of one, or a directory that `modtok slice` wrote.

    Raises:
        UsageError: it is neither.
        ModtokError: it is damaged.
    """
    path = Path(path)
    if (path / NAME).is_file():
        if step is not None:
            raise UsageError("is a slice and holds one step only", where=str(path))
        return SliceSource(path)
    if not is_run(path):
        what = "is neither a run nor a slice" if path.exists() else "no such directory"
        raise UsageError(
            what,
            where=str(path),
            remedy="name a directory that modtok pretrain or modtok slice made",
        )
    return RunSource(open_run(path, tokenizer=tokenizer, step=step, progress=progress))


class RunSource:
    """Any subset of a run's checkpoint."""

    def __init__(self, run: TrainedRun) -> None:
        self.run = run
        self.path = run.path

    @cached_property
    def _subsets(self) -> SubtokenizerCache:
        return SubtokenizerCache(self.run.tokenizer, str(self.run.tokenizer_path))

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of the run's tokenizer."""
        return self.run.tokenizer.languages

    @property
    def context(self) -> int:
        """Tokens of a training sequence."""
        return self.run.context

    @property
    def shape(self) -> Shape:
        """The model without its tables."""
        return self.run.shape

    @property
    def dtype(self) -> torch.dtype:
        """What training computed with."""
        return self.run.dtype

    @property
    def signature(self) -> str:
        """Tokenizer and step."""
        return f"{self.run.tokenizer.signature}/{self.run.step}"

    def side(self, languages: Side) -> Subtokenizer:
        """The subtokenizer of one side; None and "full" are T."""
        if languages is None or is_full(languages):
            return self._subsets.of(None)
        names = [languages] if isinstance(languages, str) else languages
        wanted = self.run.tokenizer.resolve(names)
        return self._subsets.of(tuple(name for name in self.languages if name in wanted))

    def vocabularies(self, inputs: Side, outputs: Side) -> Vocabularies:
        """Two sides by their languages.

        Raises:
            UsageError: a language that the run does not have.
        """
        reading = self.side(inputs)
        writing = reading if outputs is None else self.side(outputs)
        if writing.languages == reading.languages:
            writing = reading
        return Vocabularies(reading, writing)

    def end_of_text(self) -> int:
        """Special tokens have the same ids in every subset."""
        return self._subsets.end_of_text

    def tables(self, vocabularies: Vocabularies) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of the checkpoint; one tensor for both where the run was tied and the sides are
        the same."""
        embedding = self.run.rows("input", vocabularies.ids)
        if self.run.tied and vocabularies.same:
            return embedding, embedding
        return embedding, self.run.rows("output", vocabularies.tokenizer_out.global_ids)

    def backbone(self, dtype: torch.dtype, device: torch.device) -> Any:
        """From Megatron's parameters."""
        weights = {
            name: tensor.to(device=device, dtype=dtype)
            for name, tensor in self.run.shape.to_hf(self.run.backbone()).items()
        }
        where = str(self.run.checkpoint)
        return build_backbone(self.run.shape, weights, where, context=self.context).to(device)


class SliceSource:
    """A directory of `modtok slice`: its languages, and no others."""

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
        """Numbers of the file."""
        dtype: torch.dtype = getattr(torch, self.facts.dtype)
        return dtype

    @property
    def signature(self) -> str:
        """Tokenizer and step of the run."""
        return f"{self.facts.tokenizer}/{self.facts.step}"

    def vocabularies(self, inputs: Side, outputs: Side) -> Vocabularies:
        """The two sides that the slice was cut for.

        Raises:
            UsageError: others are asked for.
        """
        facts = self.facts
        for wanted, own, full in (
            (inputs, facts.inputs, facts.full_inputs),
            (outputs, facts.outputs, facts.full_outputs),
        ):
            if wanted is None or (full and is_full(wanted)):
                continue
            names = {normalize(name) for name in ([wanted] if isinstance(wanted, str) else wanted)}
            if names != set(own):
                raise UsageError(
                    f"has {','.join(own)} only, not {','.join(sorted(names))}",
                    where=str(self.path),
                    remedy="pass the run, or slice it again",
                )
        reading = _plain(self.path / "tokenizer.json", self.facts.inputs)
        if self.facts.row_of_in is None or self.facts.row_of_out is None:
            self._same_size("ids", len(self.facts.ids), reading)
            return Vocabularies(reading, reading)
        writing = _plain(self.path / TOKENIZER_OUT, self.facts.outputs)
        self._same_size("row_of_in", len(self.facts.row_of_in), reading)
        self._same_size("row_of_out", len(self.facts.row_of_out), writing)
        return SliceVocabularies(reading, writing, self.facts)

    def _same_size(self, field: str, there: int, tokenizer: Subtokenizer) -> None:
        if there != tokenizer.size:
            raise ModtokError(
                f"field '{field}' has {there} entries, {tokenizer.name} {tokenizer.size} tokens",
                where=str(self.path / NAME),
                remedy=_REMEDY,
            )

    def end_of_text(self) -> int:
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
        """From the file's parameters."""
        names = [name for name in self._file.keys() if name.startswith("model.")]  # noqa: SIM118
        weights = {
            name.removeprefix("model."): self._file.get_tensor(name).to(device=device, dtype=dtype)
            for name in names
            if name != "model.embed_tokens.weight"
        }
        where = str(self.path / WEIGHTS)
        return build_backbone(self.facts.shape, weights, where, context=self.context).to(device)


class SliceVocabularies(Vocabularies):
    """Two sides read from files of their own, joined by the id map of the slice."""

    def __init__(self, reading: Subtokenizer, writing: Subtokenizer, facts: SliceFacts) -> None:
        super().__init__(reading, writing)
        assert facts.row_of_in is not None
        assert facts.row_of_out is not None
        self.__dict__["ids"] = facts.ids
        self.__dict__["row_of_in"] = facts.row_of_in
        self.__dict__["row_of_out"] = facts.row_of_out


def _plain(path: Path, languages: Sequence[str]) -> Subtokenizer:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModtokError(f"cannot be read: {error.strerror}", where=str(path)) from error
    try:
        data = without_post_processor(data)
    except ValueError as error:
        raise ModtokError(f"is damaged ({error})", where=str(path), remedy=_REMEDY) from error
    found = open_bytes(data, str(path), str(path))
    if not isinstance(found, Subtokenizer):
        raise ModtokError("is not a tokenizer of modtok", where=str(path), remedy=_REMEDY)
    found.languages = tuple(languages)
    return found
