"""A vocabulary table as a store of rows with optimizer state of their own.

A step gathers the rows that are active, computes with those, and updates those. Nothing
the size of the table is ever made besides the table: a step's cost and memory depend on
the active rows.

With tensor parallelism rows are dealt round-robin by id, so that each shard holds its part
of every language: shard s of n has ids s, s + n, s + 2n, …

On a GPU an update gathers, computes and scatters in blocks. In host memory it is one pass
in place (`rows_kernel`), on a CPU and for tables kept off the device (`offload`) alike, so
that these two agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from modtok_cli.pretrain.rows.thread_team import ThreadTeam, crew_of

# Rows updated at a time: bounds what an update takes beside the table.
_BLOCK = 16384


@dataclass(frozen=True)
class AdamW:
    """Settings of the optimizer; the paper's by default."""

    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.1


# Makes zeros of a shape and type; where they lie is the maker's choice.
Zeros = Callable[[tuple[int, ...], torch.dtype], torch.Tensor]


class RowTable:
    """One shard of a table of `size` rows of `width` numbers.

    Attributes:
        weight: (n, width) float32, n the rows of this shard.
        moment1, moment2: (n, width) float32, or bfloat16 in host memory.
        steps: (n,) int32, how often each row was updated.
        mate, mates: of processes that share this memory, which one this is; an update is
            then of its share of the rows only.
    """

    def __init__(
        self,
        size: int,
        width: int,
        *,
        shard: int = 0,
        shards: int = 1,
        device: torch.device | None = None,
        moments: torch.dtype = torch.float32,
        zeros: Zeros | None = None,
        crew: ThreadTeam | None = None,
        mate: int = 0,
        mates: int = 1,
    ) -> None:
        self.size, self.width = size, width
        self.shard, self.shards = shard, shards
        self.mate, self.mates = mate, mates
        count = (size - shard + shards - 1) // shards
        where = device or torch.device("cpu")
        zeros = zeros or (lambda shape, dtype: torch.zeros(shape, dtype=dtype, device=where))
        self.weight = zeros((count, width), torch.float32)
        self.moment1 = zeros((count, width), moments)
        self.moment2 = zeros((count, width), moments)
        self.steps = zeros((count,), torch.int32)
        self._crew = crew
        # The same memory as the kernels see it; None on a GPU.
        self._arrays: tuple[Any, Any, Any, Any] | None = None
        if self.weight.device.type == "cpu":
            state = (self.weight, self.moment1, self.moment2, self.steps)
            self._arrays = (_array(state[0]), _array(state[1]), _array(state[2]), _array(state[3]))

    def touch(self) -> None:
        """Take the memory: each row is written, zero, by the thread that will update it."""
        from modtok_cli.pretrain.rows.kernel import touch

        assert self._arrays is not None
        arrays = self._arrays[:3]

        def mine(part: int, parts: int) -> None:
            for array in arrays:
                touch(array, self.mate, self.mates, part, parts)

        self._workers.share(mine)

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

    def is_own(self, ids: torch.Tensor) -> torch.Tensor:
        """Of ids of this shard, which rows this process updates; (n,) bool, all if alone."""
        from modtok_cli.pretrain.rows.kernel import BLOCK

        blocks = torch.div(self.places(ids), BLOCK, rounding_mode="floor")
        return blocks % self.mates == self.mate

    def gather(self, ids: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """A copy of the rows of `ids` (own ones); shape (len(ids), width)."""
        if self._arrays is not None:
            return self.gather_into(ids, torch.empty(len(ids), self.width, dtype=dtype))
        return self.weight.index_select(0, self.places(ids)).to(dtype)

    def gather_into(self, ids: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Copy the rows of `ids` (own ones) to `out`, (len(ids), width); both in host memory."""
        from modtok_cli.pretrain.rows.kernel import copy_rows

        assert self._arrays is not None
        weight, rows, target = self._arrays[0], self.places(ids).numpy(), _array(out)
        self._workers.share(lambda i, n: copy_rows(weight, rows, target, i, n))
        return out

    @property
    def _workers(self) -> ThreadTeam:
        return self._crew or crew_of(torch.get_num_threads())

    @torch.no_grad()
    def update(self, ids: torch.Tensor, gradients: torch.Tensor, rate: float, adamw: AdamW) -> None:
        """Row-sparse AdamW: one step for the rows of `ids`, and nothing for all others.

        A row's moments, its bias correction (by its own count of steps) and its weight
        decay advance only in steps in which it is active. `ids` are without repetition.
        """
        if self._arrays is not None:
            self._update_in_place(ids, gradients, rate, adamw)
            return
        for start in range(0, len(ids), _BLOCK):
            rows = self.places(ids[start : start + _BLOCK])
            g = gradients[start : start + _BLOCK].float()
            steps = self.steps[rows] + 1
            w, m, v = self.weight[rows], self.moment1[rows], self.moment2[rows]
            _adamw(w, m, v, g, steps, rate, adamw)
            self.weight[rows], self.moment1[rows], self.moment2[rows] = w, m, v
            self.steps[rows] = steps

    def _update_in_place(
        self, ids: torch.Tensor, gradients: torch.Tensor, rate: float, adamw: AdamW
    ) -> None:
        from modtok_cli.pretrain.rows.kernel import update_rows

        assert self._arrays is not None
        state = self._arrays
        received = (self.places(ids).numpy(), _array(gradients.contiguous()))
        settings = (rate, adamw.beta1, adamw.beta2, adamw.epsilon, adamw.weight_decay)

        def mine(part: int, parts: int) -> None:
            update_rows(*state, *received, self.mate, self.mates, part, parts, *settings)

        self._workers.share(mine)

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


def _array(tensor: torch.Tensor) -> Any:
    """A tensor in host memory as the kernels take it: bfloat16 by its bits."""
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.uint16).numpy()
    return tensor.numpy()


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
