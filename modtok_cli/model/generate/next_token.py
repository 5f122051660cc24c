"""Which token comes next: greedy, or drawn at a temperature within top-p and min-p.

The filters come from transformers. A draw inverts the cumulative distribution in order of ids
at one uniform number, so a token of probability zero changes nothing: a slice draws what the
whole model draws with the other tokens masked. The number is a function of seed, index of the
prompt and position (counter-based), so it does not depend on batch size or on other prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option

if TYPE_CHECKING:
    import torch

SEEDS = 1 << 62
"""Seeds are below this."""


MaxTokens = Annotated[int, Option("Maximum number of new tokens.", metavar="N", low=1)]
Temperature = Annotated[float, Option("Sampling temperature; 0 is greedy.", metavar="T", low=0)]
TopP = Annotated[
    float,
    Option(
        "Sample from the most probable tokens with total probability P.",
        metavar="P",
        above=0,
        high=1,
    ),
]
MinP = Annotated[
    float,
    Option(
        "Sample from tokens with at least P times the highest probability.",
        metavar="P",
        low=0,
        high=1,
    ),
]
Stop = Annotated[
    Sequence[str],
    Option(
        "Stop before this text. Repeatable.",
        kind=list[str],
        metavar="TEXT",
        accepts=(lambda value: isinstance(value, list | tuple), "a list"),
    ),
]
Seed = Annotated[int, Option("Random seed.", metavar="N", low=0)]


@dataclass(frozen=True)
class SamplingOptions:
    """How to choose tokens and when to stop."""

    max_tokens: MaxTokens = 128
    temperature: Temperature = 0.0
    top_p: TopP = 1.0
    min_p: MinP = 0.0
    stop: Stop = ()
    seed: Seed = 0

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
        import torch

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
