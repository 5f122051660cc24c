"""The models of a run, a slice or a directory under each inference mode."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.parameters import FilePath, optional_path
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.evaluate.modes import Infer
from modtok_cli.measure.references import Reference, identify
from modtok_cli.model.generate.route import routing_references
from modtok_cli.model.generate.sliced_model import SlicedModel
from modtok_cli.model.generate.worker_processes import ALONE, Processes
from modtok_cli.model.load import model_of, open_model
from modtok_cli.model.source import ModelSource
from modtok_cli.tokenizer.encoding.encoder import utf8


class Models:
    """One run under several vocabularies. The backbone is loaded once, rows when needed.

    Attributes:
        source: the run, slice or model.
        processes: the processes that share the work.
        progress: of everything that is done with the models.
    """

    def __init__(
        self,
        source: ModelSource,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
        processes: Processes = ALONE,
        progress: Progress = SILENT,
    ) -> None:
        self.source, self.processes, self.progress = source, processes, progress
        self._dtype = dtype or source.dtype
        device = device or processes.device
        self._device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self._last: tuple[Infer, SlicedModel] | None = None

    @cached_property
    def signed(self) -> dict[str, str]:
        """The part of a signature beside the vocabulary: weights, dtype, beginning of a text."""
        return {
            "checkpoint": self.source.digest,
            "dtype": str(self._dtype).removeprefix("torch."),
            "bos": self.source.begins,
        }

    @cached_property
    def labels(self) -> dict[str, Any]:
        """Fields of rows that say of which model they are.

        Models of one `recipe` differ in their seed only.
        """
        checkpoint = self.signed["checkpoint"]
        return {"run": self.source.path.name, "checkpoint": checkpoint, **self.source.labels()}

    @cached_property
    def _references(self) -> dict[str, Reference]:
        """Monolingual references of a run's tokenizer; none, with a note, if it has none."""
        if self.source.modular is None:
            self.progress.note("no references: the language of outputs is not identified")
            return {}
        try:
            found = routing_references(self.source.modular, self.source.languages)
            for reference in found.values():
                _ = reference.prices
        except ModtokError as error:
            self.progress.note(f"the language of outputs is not identified: {error}")
            return {}
        return found

    def in_language(self, language: str, texts: Sequence[str]) -> list[float] | None:
        """Return 1.0 for each text in `language`, 0.0 for others and those without letters.

        The language is identified as `modtok generate --langs auto` does, among the model's.
        None if there is no reference of `language`, or no other reference to compare with.
        """
        if language not in self._references or len(self._references) < 2:
            return None
        names = identify([utf8(text) for text in texts], self._references)
        return [
            float(name == language and any(map(str.isalpha, text)))
            for text, name in zip(texts, names, strict=True)
        ]

    def of(self, infer: Infer) -> SlicedModel:
        """Return the model with the vocabularies of `infer`; the last one is cached."""
        if self._last is None or self._last[0] != infer:
            if self._last is not None:
                model = self._last[1].with_vocabulary(infer.inputs, infer.outputs)
            else:
                vocabularies = self.source.vocabularies(infer.inputs, infer.outputs)
                with self.progress.task("loading the model", None, ""):
                    model = model_of(
                        self.source, vocabularies, self._dtype, self._device, self.progress
                    )
            self._last = (infer, model)
        return self._last[1]


def open_models(
    run: FilePath,
    tokenizer: FilePath | None = None,
    step: int | None = None,
    dtype: str | None = None,
    *,
    device: torch.device | str | None = None,
    processes: Processes | None = None,
    progress: Progress = SILENT,
) -> Models:
    """Return the models of a run, a checkpoint or a slice."""
    source = open_model(Path(run), tokenizer=optional_path(tokenizer), step=step, progress=progress)
    return Models(
        source,
        dtype=dtype_of(dtype),
        device=device,
        processes=processes or ALONE,
        progress=progress,
    )


def dtype_of(name: str | None) -> torch.dtype | None:
    """Return the dtype of torch of that name; None stays."""
    return None if name is None else getattr(torch, name)
