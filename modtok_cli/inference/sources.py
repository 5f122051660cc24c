"""Open what a model comes from: a run, for any subset of its languages, a slice, or a model."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from modtok_cli.architectures.hf_directory import is_hf_directory
from modtok_cli.architectures.shape import Shape
from modtok_cli.base.errors import UsageError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.inference.backbone import build_backbone
from modtok_cli.inference.directory_source import DirectorySource
from modtok_cli.inference.run import TrainedRun, open_run
from modtok_cli.inference.slice_source import SliceSource
from modtok_cli.inference.slicefile import NAME
from modtok_cli.inference.source import Side, Source, is_full
from modtok_cli.inference.vocabularies import Vocabularies
from modtok_cli.modular.subtokenizer import Subtokenizer
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.rundir import is_run

Opened = Source | DirectorySource


def open_source(
    path: Path,
    *,
    tokenizer: Path | None = None,
    step: int | None = None,
    progress: Progress = SILENT,
) -> Opened:
    """Open a run, a checkpoint of one, a slice, or a directory of a model of transformers.

    Raises:
        UsageError: it is none of these.
        ModtokError: it is damaged.
    """
    path = Path(path)
    if (path / NAME).is_file():
        if step is not None:
            raise UsageError(
                "is a slice, which has one step only", where=str(path), remedy="leave --step out"
            )
        return SliceSource(path)
    if is_hf_directory(path):
        if step is not None or tokenizer is not None:
            raise UsageError(
                "is a model of transformers: --step and -t do not apply", where=str(path)
            )
        source = DirectorySource(path)
        if not source.languages:
            progress.note(f"{path} has no languages: its whole vocabulary is used")
        return source
    if not is_run(path):
        what = "is neither a run nor a model" if path.exists() else "does not exist"
        remedy = "pass a directory of modtok pretrain, modtok slice or save_pretrained"
        raise UsageError(what, where=str(path), remedy=remedy)
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
        """Dtype of training."""
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
        """Both sides by their languages.

        Raises:
            UsageError: a language that the run does not have.
        """
        reading = self.side(inputs)
        writing = reading if outputs is None else self.side(outputs)
        if writing.languages == reading.languages:
            writing = reading
        return Vocabularies(reading, writing)

    def end_of_text(self, vocabularies: Vocabularies) -> int:
        """Row of the token between documents."""
        return int(np.searchsorted(vocabularies.ids, self._subsets.end_of_text))

    def tables(self, vocabularies: Vocabularies) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows of the checkpoint; one tensor for both if tied and the sides are equal."""
        embedding = self.run.rows("input", vocabularies.ids)
        if self.run.tied and vocabularies.same:
            return embedding, embedding
        return embedding, self.run.rows("output", vocabularies.tokenizer_out.global_ids)

    def backbone(self, dtype: torch.dtype, device: torch.device) -> Any:
        """The backbone with the parameters of Megatron's."""
        weights = {
            name: tensor.to(device=device, dtype=dtype)
            for name, tensor in self.run.shape.to_hf(self.run.backbone()).items()
        }
        where = str(self.run.checkpoint)
        return build_backbone(self.run.shape, weights, where, context=self.context).to(device)
