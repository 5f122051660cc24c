"""Which token comes next: greedy, or drawn at a temperature within top-p and min-p.

The filters are transformers' own. The draw is ours: by the inverse of the cumulative
distribution in order of ids, from one uniform number. A token of probability zero changes
nothing then, so a slice draws what the whole model draws with the other tokens masked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from modtok_cli.base.errors import UsageError
from modtok_cli.pretrain.config import SEEDS


@dataclass(frozen=True)
class Options:
    """How to generate.

    Attributes:
        most: tokens at the most.
        temperature: 0 is greedy.
        top_p: smallest set of tokens with so much probability; 1 is all.
        min_p: tokens of at least so much of the best one's probability; 0 is all.
        stop: strings at which to stop; they are not part of the text.
        seed: of all draws; each prompt of a batch has draws of its own.
        past_end: go on behind an end of text.
    """

    most: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    min_p: float = 0.0
    stop: tuple[str, ...] = ()
    seed: int = 0
    past_end: bool = False

    def __post_init__(self) -> None:
        if self.most < 1:
            raise UsageError(f"{self.most} tokens to generate", remedy="from 1")
        if not self.temperature >= 0:
            raise UsageError(f"{self.temperature:g} is no temperature", remedy="from 0 (greedy)")
        if not 0 < self.top_p <= 1:
            raise UsageError(f"{self.top_p:g} is no --top-p", remedy="above 0, to 1")
        if not 0 <= self.min_p <= 1:
            raise UsageError(f"{self.min_p:g} is no --min-p", remedy="0 to 1")
        if not 0 <= self.seed < SEEDS:
            raise UsageError(f"{self.seed} is no --seed", remedy="0 to 2^62 - 1")
        if not all(self.stop):
            raise UsageError("an empty stop string", remedy="leave it out")

    @cached_property
    def _filters(self) -> list[Any]:
        from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopPLogitsWarper

        filters: list[Any] = []
        if self.temperature != 1:
            filters.append(TemperatureLogitsWarper(self.temperature))
        if self.top_p < 1:
            filters.append(TopPLogitsWarper(self.top_p))
        if self.min_p > 0:
            filters.append(MinPLogitsWarper(self.min_p))
        return filters

    def choose(self, logits: torch.Tensor, generators: list[torch.Generator]) -> torch.Tensor:
        """The next id of each sequence; (B, V) float32 logits to (B,) int64."""
        if self.temperature == 0:
            return logits.argmax(-1)
        for each in self._filters:
            logits = each(None, logits)
        mass = logits.double().softmax(-1).cumsum(-1)
        draws = torch.tensor(
            [torch.rand((), generator=generator, dtype=torch.float64) for generator in generators],
            dtype=torch.float64,
            device=logits.device,
        )
        # The first id whose cumulative mass exceeds the draw: never one of probability zero.
        return torch.searchsorted(mass, (draws * mass[:, -1])[:, None], right=True)[:, 0]
