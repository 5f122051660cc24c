"""An embedding table as a store of rows, each with its own optimizer state.

A step gathers the active rows, computes with them, and updates them. Its cost and memory
depend on the number of active rows, never on the size of the table.

Rows are sharded over all ranks round-robin by id, so that each shard holds a part of every
language: shard s of n has the ids s, s + n, s + 2n, … (which rank that is: `rows.exchange`).

On a GPU an update gathers, computes and scatters in blocks. In host memory it is one pass
in place (`core.rows`), for tables of a CPU run and for offloaded tables alike, so that
both agree bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from modtok_cli.core.rows import copy_rows, touch, update_rows

# Rows updated at a time: bounds the memory of an update.
_BLOCK = 16384


@dataclass(frozen=True)
class AdamW:
    """Hyperparameters of AdamW; the defaults are the paper's.

    `decayed` are the kinds of parameters with weight decay: matrices, embeddings, norms.
    """

    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.1
    decayed: tuple[str, ...] = ("matrices", "embeddings")

    def decay(self, kind: str) -> float:
        """Weight decay of a kind of parameters.

        >>> AdamW().decay("matrices"), AdamW().decay("norms")
        (0.1, 0.0)
        """
        return self.weight_decay if kind in self.decayed else 0.0


class RowTable:
    """One shard of a table of `size` rows of `width` values.

    Attributes:
        weight: (n, width) float32, n rows on this shard.
        moment1, moment2: (n, width) float32, or bfloat16 in host memory.
        steps: (n,) int32, number of updates of each row.

    `fused` compiles an update on a GPU; `threads` is for rows in host memory, None: torch's.
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
        zeros: Callable[[tuple[int, ...], torch.dtype], torch.Tensor] | None = None,
        threads: int | None = None,
        fused: bool = False,
    ) -> None:
        self._fused = fused
        self.size, self.width = size, width
        self.shard, self.shards = shard, shards
        count = (size - shard + shards - 1) // shards
        zeros = zeros or (lambda shape, dtype: torch.zeros(shape, dtype=dtype, device=device))
        self.weight = zeros((count, width), torch.float32)
        self.moment1 = zeros((count, width), moments)
        self.moment2 = zeros((count, width), moments)
        self.steps = zeros((count,), torch.int32)
        self.threads = threads
        # The same memory as NumPy arrays, for the kernels; None on a GPU.
        self._arrays: tuple[Any, ...] | None = None
        if self.weight.device.type == "cpu":
            state = (self.weight, self.moment1, self.moment2, self.steps)
            self._arrays = tuple(map(_array, state))

    def touch(self) -> None:
        """Commit the memory: the thread that will update a row writes zeros to it."""
        assert self._arrays is not None
        for array in self._arrays[:3]:
            touch(array, self._threads)

    def initialize(self, seed: int, std: float = 0.02) -> None:
        """Draw normal(0, std) weights that depend on seed and row id only, not on sharding."""
        generator = torch.Generator().manual_seed(seed)
        for start in range(0, self.size, _BLOCK):
            block = torch.empty(min(_BLOCK, self.size - start), self.width)
            block.normal_(0.0, std, generator=generator)
            first = (self.shard - start) % self.shards
            mine = block[first :: self.shards]
            place = (start + first) // self.shards
            self.weight[place : place + len(mine)] = mine.to(self.weight.device)

    def local_rows(self, ids: torch.Tensor) -> torch.Tensor:
        """Row numbers in this shard's arrays, for ids that it holds."""
        return torch.div(ids, self.shards, rounding_mode="floor")

    def gather(self, ids: torch.Tensor, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """A copy of the rows of `ids`, which this shard holds; (len(ids), width)."""
        if self._arrays is not None:
            return self.gather_into(ids, torch.empty(len(ids), self.width, dtype=dtype))
        return self.weight.index_select(0, self.local_rows(ids)).to(dtype)

    def gather_into(self, ids: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        """Copy the rows of `ids` to `out`, (len(ids), width); both in host memory."""
        assert self._arrays is not None
        rows, target = self.local_rows(ids).numpy(), _array(out)
        copy_rows(self._arrays[0], rows, target, self._threads)
        return out

    @property
    def _threads(self) -> int:
        return self.threads or torch.get_num_threads()

    @torch.no_grad()
    def update(
        self,
        ids: torch.Tensor,
        gradients: torch.Tensor,
        lr: float,
        adamw: AdamW,
        finite: torch.Tensor | None = None,
    ) -> None:
        """Row-sparse AdamW: one step for the rows of `ids`, no change to all others.

        A row's moments, bias correction (by its own step count) and weight decay advance only
        in steps in which it is active. `ids` are unique. `finite`: a bool where the table is;
        False changes nothing, None is True.
        """
        if self._arrays is not None:
            if finite is not None and not finite:
                return
            places, g = self.local_rows(ids).numpy(), _array(gradients.contiguous())
            rates = (lr, adamw.beta1, adamw.beta2, adamw.epsilon, adamw.decay("embeddings"))
            w, m, v, counts = self._arrays
            update_rows(w, m, v, counts, places, g, self._threads, *rates)
            return
        rows = self.local_rows(ids)
        self.steps[rows] += 1 if finite is None else finite.int()
        corrections = _corrections(self.steps[rows], adamw)
        step = compiled_step() if self._fused else update_in_place
        # A number of the host would be compiled into the kernels, of each step again.
        rate = torch.full((), lr, dtype=torch.float64, device=rows.device)
        state = self.weight, self.moment1, self.moment2
        for block in (slice(at, at + _BLOCK) for at in range(0, len(ids), _BLOCK)):
            of_block = [one[block] for one in corrections]
            step(state, rows[block], gradients[block].float(), of_block, finite, rate, adamw)

    @torch.no_grad()
    def update_dense(
        self,
        ids: torch.Tensor,
        gradients: torch.Tensor,
        lr: float,
        adamw: AdamW,
        finite: torch.Tensor | None = None,
    ) -> None:
        """Dense AdamW over the whole table, with zero gradients for rows not in `ids`.

        Equals training with a mask over the full softmax: inactive rows decay, and their
        momentum still moves them. `ids` ascend. Costs a pass over the table.
        """
        rows = self.local_rows(ids)
        bounds = torch.arange(0, len(self.weight) + _BLOCK, _BLOCK, device=rows.device)
        cuts = torch.searchsorted(rows, bounds).tolist()
        for block, start in enumerate(range(0, len(self.weight), _BLOCK)):
            stop = min(start + _BLOCK, len(self.weight))
            g = torch.zeros(stop - start, self.width, device=self.weight.device)
            inside = slice(cuts[block], cuts[block + 1])
            g[rows[inside] - start] = gradients[inside].float()
            self.steps[start:stop] += 1 if finite is None else finite.int()
            state = (self.weight[start:stop], self.moment1[start:stop], self.moment2[start:stop])
            corrections = _corrections(self.steps[start:stop], adamw)
            found = _adamw(*state, g, corrections, finite, lr, adamw)
            for old, new in zip(state, found, strict=True):
                old.copy_(new)


def _array(tensor: torch.Tensor) -> Any:
    """A tensor in host memory as a NumPy array; bfloat16 as its bits."""
    return (tensor.view(torch.uint16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def update_in_place(
    state: tuple[torch.Tensor, ...],
    rows: torch.Tensor,
    g: torch.Tensor,
    corrections: Sequence[torch.Tensor],
    finite: torch.Tensor | None,
    lr: torch.Tensor,
    adamw: AdamW,
) -> None:
    """AdamW on `rows` (n,) of weight and moments, by their gradients (n, d)."""
    weight, moment1, moment2 = (part[rows] for part in state)
    found = _adamw(weight, moment1, moment2, g, corrections, finite, lr, adamw)
    for part, new in zip(state, found, strict=True):
        part[rows] = new


@cache
def compiled_step() -> Callable[..., None]:
    """`update_in_place` in a kernel that reads and writes each number once."""
    return torch.compile(update_in_place, dynamic=True)


def _corrections(steps: torch.Tensor, adamw: AdamW) -> list[torch.Tensor]:
    """Bias corrections of the moments of rows by their step counts (n,), from 1; (n, 1) each."""
    count = steps.to(torch.float64).unsqueeze(1)
    return [(1 - adamw.beta1**count).float(), (1 - adamw.beta2**count).sqrt().float()]


def _adamw(
    w: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    g: torch.Tensor,
    corrections: Sequence[torch.Tensor],
    finite: torch.Tensor | None,
    lr: torch.Tensor | float,
    adamw: AdamW,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """AdamW on rows (n, d): weight and moments.

    What they were if not `finite`. Operations have the order of `torch.optim.AdamW`, to agree with
    it up to rounding.
    """
    new_m = m.lerp(g, 1 - adamw.beta1)
    new_v = (v * adamw.beta2).addcmul_(g, g, value=1 - adamw.beta2)
    change = lr * new_m / corrections[0] / (new_v.sqrt() / corrections[1] + adamw.epsilon)
    new_w = w * (1 - lr * adamw.decay("embeddings")) - change
    if finite is None:
        return new_w, new_m, new_v
    return new_w.where(finite, w), new_m.where(finite, m), new_v.where(finite, v)
