"""Which token comes next: greedy, or drawn at a temperature within top-p and min-p.

The filters are those of transformers. A draw inverts the cumulative distribution in order of ids
at one uniform number, so a token of probability zero changes nothing: a slice draws what the
whole model draws with the other tokens masked. The number is a function of seed, index of the
prompt and position (counter-based), so it does not depend on batch size or on other prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from modtok_cli.base.errors import UsageError

SEEDS = 1 << 62
"""Seeds are below this."""


@dataclass(frozen=True)
class SamplingOptions:
    """How to choose tokens and when to stop.

    Attributes:
        max_tokens: maximum number of generated tokens.
        temperature: 0 is greedy.
        top_p: keep the smallest set of tokens with this probability; 1 keeps all.
        min_p: keep tokens with at least this share of the best one's probability; 0 keeps all.
        stop: strings that end the text; they are not part of it.
        seed: seed of all draws.
        past_end: continue after an end of text.

    Raises:
        UsageError: a value out of range.
    """

    max_tokens: int = 128
    temperature: float = 0.0
    top_p: float = 1.0
    min_p: float = 0.0
    stop: tuple[str, ...] = ()
    seed: int = 0
    past_end: bool = False

    def __post_init__(self) -> None:
        ranges = (
            ("--max-tokens", self.max_tokens, self.max_tokens >= 1, "at least 1"),
            ("--temperature", self.temperature, 0 <= self.temperature < float("inf"), "0 or more"),
            ("--top-p", self.top_p, 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("--min-p", self.min_p, 0 <= self.min_p <= 1, "between 0 and 1"),
            ("--seed", self.seed, 0 <= self.seed < SEEDS, "between 0 and 2^62 - 1"),
        )
        for option, value, valid, expected in ranges:
            if not valid:
                raise UsageError(f"expected {expected}, got {value}", where=option)
        if not all(self.stop):
            raise UsageError("a stop string is empty", where="--stop", remedy="leave it out")

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

    def choose(self, logits: torch.Tensor, prompts: Sequence[int], position: int) -> torch.Tensor:
        """The next id of each sequence; (B, V) float32 logits to (B,) int64.

        `prompts` are the indices of the sequences' prompts, `position` is the number of tokens
        generated so far.
        """
        if self.temperature == 0:
            return logits.argmax(-1)
        for each in self._filters:
            logits = each(None, logits)
        mass = logits.double().softmax(-1).cumsum(-1)
        draws = torch.tensor(
            [uniform(self.seed, prompt, position) for prompt in prompts],
            dtype=torch.float64,
            device=logits.device,
        )
        # The first id with a cumulative mass above the draw: never one of probability zero.
        return torch.searchsorted(mass, (draws * mass[:, -1])[:, None], right=True)[:, 0]


def uniform(seed: int, prompt: int, position: int) -> float:
    """The random number in [0, 1) for a position of a prompt's text: Philox, 53 bits.

    >>> uniform(0, 0, 0) == uniform(0, 0, 0) != uniform(1, 0, 0)
    True
    """
    bits = np.random.Philox(key=[seed, prompt], counter=[position, 0, 0, 0])
    return int(bits.random_raw() >> 11) / (1 << 53)
