"""Evaluate one cell, by the function of its task, with a model that stays loaded."""

from __future__ import annotations

from typing import Any

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import Progress
from modtok_cli.evaluate.bits import evaluate_bpb
from modtok_cli.evaluate.generation import Models, open_models
from modtok_cli.evaluate.grid.cells import Cell, Place, Row, Store
from modtok_cli.evaluate.mcq import evaluate_mcq
from modtok_cli.evaluate.results import Evaluation
from modtok_cli.evaluate.summarization import evaluate_sum
from modtok_cli.evaluate.translation import evaluate_mt


class Loaded:
    """The model that this process has loaded last."""

    def __init__(self, device: str | None = None) -> None:
        self._device = device
        self._last: tuple[Place, Models] | None = None

    def of(self, place: Place, progress: Progress) -> Models:
        """Models of a checkpoint or slice, loaded if it is another one.

        Raises:
            ModtokError: it is damaged, or has gone.
        """
        if self._last is None or self._last[0] != place:
            self._last = None  # before the next one needs memory
            models = open_models(
                place.path,
                tokenizer=place.tokenizer,
                step=place.step,
                dtype=None if place.dtype is None else getattr(torch, place.dtype),
                device=self._device,
                progress=progress,
            )
            self._last = place, models
        return self._last[1]


def evaluate_cell(cell: Cell, models: Models, progress: Progress) -> tuple[list[Row], list[Row]]:
    """(rows, examples) of a cell: those of the command of its task.

    Raises:
        ModtokError: it cannot be evaluated.
    """
    if cell.kind == "bpb":
        examples: list[Row] = []
        rows = evaluate_bpb(
            models,
            [cell.data or ""],
            language=cell.language,
            settings=cell.settings,
            reading=cell.reading,
            examples=examples,
            progress=progress,
        )
        return rows, examples
    found = _evaluation(cell, models, progress)
    if found.skipped:
        raise ModtokError("; ".join(found.skipped))
    return [result.as_row() for result in found.results], found.examples


def _evaluation(cell: Cell, models: Models, progress: Progress) -> Evaluation:
    common: dict[str, Any] = {"settings": cell.settings, "progress": progress}
    if cell.kind == "mcq":
        languages = [str(cell.language)]
        return evaluate_mcq(models, languages, data=cell.data, include=cell.include, **common)
    assert cell.data is not None
    if cell.kind == "mt":
        return evaluate_mt(models, cell.language, data=cell.data, **common)
    return evaluate_sum(models, [str(cell.language)], data=cell.data, **common)


def compute(cell: Cell, loaded: Loaded, store: Store, progress: Progress) -> str | None:
    """Evaluate a cell and save it; returns why it failed, None if it did not.

    Raises:
        ModtokError: it could not be saved.
    """
    try:
        rows, examples = evaluate_cell(cell, loaded.of(cell.place, progress), progress)
    except ModtokError as error:
        return str(error)
    store.write(cell, rows, examples)
    return None
