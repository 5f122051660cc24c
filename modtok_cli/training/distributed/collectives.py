"""Collectives of a group of replicas, which count the bytes that a rank sends.

The counts are those of algorithms that send no value twice: a rank sends its part of an
all-gather to each of the R - 1 others (directly, or around a ring), and of a reduce-scatter
(R - 1) / R of its buffer. torch's gloo has no such reduce-scatter (it reduces the whole buffer
on every rank): there it is an all-to-all, and a sum in the order of ranks.
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from modtok_cli.training.distributed.ranks import entering


class Collectives:
    """Collectives of a group of `size` ranks; with one rank nothing is sent.

    Attributes:
        sent: bytes that this rank has sent so far.
    """

    def __init__(self, group: dist.ProcessGroup | None, size: int) -> None:
        self.size, self.sent = size, 0
        self._group = group
        self._gloo = group is not None and dist.get_backend(group) == "gloo"

    def all_gather(self, part: torch.Tensor) -> torch.Tensor:
        """The parts of all ranks, which have the same shape; (R, *part.shape)."""
        if self._group is None:
            return part.unsqueeze(0)
        self.sent += (self.size - 1) * part.numel() * part.element_size()
        entering()
        whole = part.new_empty(self.size * len(part), *part.shape[1:])
        dist.all_gather_into_tensor(whole, part.contiguous(), group=self._group)
        return whole.view(self.size, *part.shape)

    def reduce_scatter(self, parts: torch.Tensor) -> torch.Tensor:
        """Sum over ranks of `parts[r]` for rank r; (R, …) to (…)."""
        if self._group is None:
            return parts[0]
        self.sent += (self.size - 1) * parts[0].numel() * parts.element_size()
        entering()
        if self._gloo:
            received = torch.empty_like(parts)
            dist.all_to_all_single(received, parts, group=self._group)
            return received.sum(0)
        own = torch.empty_like(parts[0])
        dist.reduce_scatter_tensor(own, parts.flatten(0, 1), group=self._group)
        return own
