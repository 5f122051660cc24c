"""A vocabulary table as a store of rows with optimizer state of their own.

A step gathers the rows that are active, computes with those, and updates those. Nothing
the size of the table is ever made besides the table: a step's cost and memory depend on
the active rows.

With tensor parallelism rows are dealt round-robin by id, so that each shard holds its part
of every language: shard s of n has ids s, s + n, s + 2n, …
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

# Rows updated at a time: bounds what an update takes beside the table.
_BLOCK = 16384


@dataclass(frozen=True)
class AdamW:
    """Settings of the optimizer; the paper's by default."""

    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.1


class RowTable:
    """One shard of a table of `size` rows of `width` numbers.

    Attributes:
        weight, moment1, moment2: (n, width) float32, n the rows of this shard.
        steps: (n,) int32, how often each row was updated.
    """

    def __init__(
        self,
        size: int,
        width: int,
        *,
        shard: int = 0,
        shards: int = 1,
        device: torch.device | None = None,
    ) -> None:
        self.size, self.width = size, width
        self.shard, self.shards = shard, shards
        count = (size - shard + shards - 1) // shards
        device = device or torch.device("cpu")
        self.weight = torch.zeros(count, width, device=device)
        self.moment1 = torch.zeros(count, width, device=device)
        self.moment2 = torch.zeros(count, width, device=device)
        self.steps = torch.zeros(count, dtype=torch.int32, device=device)

    def initialize(self, seed: int, std: float = 0.02) -> None:
        """Normal numbers that depend on seed and row id only, whatever the sharding."""
        generator = torch.Generator().manual_seed(seed)
        for start in range(0, self.size, _BLOCK):
            block = torch.empty(min(_BLOCK, self.size - start), self.width)
            block.normal_(0.0, std, generator=generator)
            first = (self.shard - start) % self.shards
            mine = block[first :: self.shards]
            place = (start + first) // self.shards
            self.weight[place : place + len(mine)] = mine.to(self.weight.device)

    def mine(self, ids: torch.Tensor) -> torch.Tensor:
        """Those of `ids` that this shard holds, in order."""
        return ids if self.shards == 1 else ids[ids % self.shards == self.shard]

    def places(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows of this shard's arrays for ids that are its own."""
        return torch.div(ids, self.shards, rounding_mode="floor")

    def gather(self, ids: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """A copy of the rows of `ids` (own ones); shape (len(ids), width)."""
        return self.weight.index_select(0, self.places(ids)).to(dtype)

    @torch.no_grad()
    def update(self, ids: torch.Tensor, gradients: torch.Tensor, rate: float, adamw: AdamW) -> None:
        """Row-sparse AdamW: one step for the rows of `ids`, and nothing for all others.

        A row's moments, its bias correction (by its own count of steps) and its weight
        decay advance only in steps in which it is active.
        """
        for start in range(0, len(ids), _BLOCK):
            rows = self.places(ids[start : start + _BLOCK])
            g = gradients[start : start + _BLOCK].float()
            steps = self.steps[rows] + 1
            w, m, v = self.weight[rows], self.moment1[rows], self.moment2[rows]
            _adamw(w, m, v, g, steps, rate, adamw)
            self.weight[rows], self.moment1[rows], self.moment2[rows] = w, m, v
            self.steps[rows] = steps

    @torch.no_grad()
    def update_dense(
        self, ids: torch.Tensor, gradients: torch.Tensor, rate: float, adamw: AdamW
    ) -> None:
        """Ordinary AdamW over the whole table, the gradient of rows not in `ids` being zero.

        What training with a mask over the full softmax does: idle rows decay, and their
        moments fade and still move them. `ids` ascend. Costs a pass over the table.
        """
        rows = self.places(ids)
        bounds = torch.arange(0, len(self.weight) + _BLOCK, _BLOCK, device=rows.device)
        cuts = torch.searchsorted(rows, bounds).tolist()
        for block, start in enumerate(range(0, len(self.weight), _BLOCK)):
            stop = min(start + _BLOCK, len(self.weight))
            g = torch.zeros(stop - start, self.width, device=self.weight.device)
            inside = slice(cuts[block], cuts[block + 1])
            g[rows[inside] - start] = gradients[inside].float()
            self.steps[start:stop] += 1
            state = (self.weight[start:stop], self.moment1[start:stop], self.moment2[start:stop])
            _adamw(*state, g, self.steps[start:stop], rate, adamw)


def _adamw(
    w: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    steps: torch.Tensor,
    rate: float,
    adamw: AdamW,
) -> None:
    """AdamW in place on rows (n, d), each with its own number of steps (n,), from 1.

    In the order of operations of `torch.optim.AdamW`, to agree with it to rounding.
    """
    count = steps.to(torch.float64).unsqueeze(1)
    correction1 = (1 - adamw.beta1**count).to(w.dtype)
    correction2 = (1 - adamw.beta2**count).sqrt().to(w.dtype)
    w.mul_(1 - rate * adamw.weight_decay)
    m.lerp_(g, 1 - adamw.beta1)
    v.mul_(adamw.beta2).addcmul_(g, g, value=1 - adamw.beta2)
    w.sub_(rate * m / correction1 / (v.sqrt() / correction2 + adamw.epsilon))
