"""What a sliced model is made from: a run or a slice, by one interface."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import torch

from modtok_cli.architectures.shape import Shape
from modtok_cli.inference.vocabularies import Vocabularies

FULL = "full"
Side = Sequence[str] | str | None


def is_full(side: Side) -> bool:
    """Whether a side is the whole vocabulary T."""
    return side is not None and (side == FULL or list(side) == [FULL])


class AnySource(Protocol):
    """What a model is loaded from."""

    path: Path

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of the input side, or of the run; none of a model of transformers."""

    @property
    def context(self) -> int:
        """Maximum number of tokens, that of a training sequence."""

    @property
    def dtype(self) -> torch.dtype:
        """Dtype to compute with."""

    @property
    def signature(self) -> str:
        """Signature of the modular tokenizer, and the step."""

    def vocabularies(self, inputs: Side, outputs: Side) -> Vocabularies:
        """Both sides; `inputs` None is everything, `outputs` None the same as `inputs`."""


class Source(AnySource, Protocol):
    """What a sliced model is made from."""

    @property
    def shape(self) -> Shape:
        """The model without its tables."""

    def end_of_text(self, vocabularies: Vocabularies) -> int:
        """Row of the token between documents; both sides have it."""

    def tables(self, vocabularies: Vocabularies) -> tuple[torch.Tensor, torch.Tensor]:
        """Input rows (n, d) and output rows (|V_out|, d)."""

    def backbone(self, dtype: torch.dtype, device: torch.device) -> Any:
        """The transformers backbone without a table."""
