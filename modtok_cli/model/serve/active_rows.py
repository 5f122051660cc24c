"""Logits of a batch of requests in different languages: over the union of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache

import numpy as np
import torch

from modtok_cli.base.arrays import Int32Array

_SETS = 256  # of languages, whose masks are kept
SHARE = 0.5
"""Of T's rows: a union of more is computed as T."""


class ActiveRows:
    """Restricts each row of a batch to the tokens of its languages.

    Args:
        ids_of: languages → their ids in T, ascending.
        size: number of logits; logits without a token are never chosen.
    """

    def __init__(self, ids_of: Callable[[str], Int32Array], size: int) -> None:
        self._size = size
        self._chosen: Mapping[int, str] | None = None
        self._count: int | None = None
        self._prompts: list[str] = []
        self._names: tuple[str, ...] = ()
        self._ids = torch.empty(0)
        self._outside = torch.empty(0)

        def member(languages: str) -> torch.Tensor:
            mask = np.zeros(size, dtype=np.bool_)
            mask[ids_of(languages)] = True
            return torch.from_numpy(mask)

        self._member = lru_cache(_SETS)(member)

    def choose(self, languages: Mapping[int, str], count: int | None = None) -> None:
        """Languages by row of the next batch, of so many rows; other rows have all of T."""
        self._chosen, self._count, self._prompts = languages, count, []

    def choose_prompts(self, languages: list[str]) -> None:
        """Languages of the rows of prompts, whose logits are computed in order after the batch."""
        self._prompts = languages

    def logits(
        self,
        hidden: torch.Tensor,
        whole: Callable[[torch.Tensor], torch.Tensor],
        part: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None,
    ) -> torch.Tensor:
        """Logits of a batch; (n, width) to (n, size), -inf outside a row's languages.

        A batch that was not chosen has the next rows of prompts; without, it is no batch of
        requests, and has all of T.

        Args:
            whole: computes logits over T.
            part: computes them over these ids (m,) int64, ascending; None if it cannot.

        Raises:
            RuntimeError: the batch has another number of rows than was chosen for.
        """
        chosen, self._chosen = self._chosen, None
        if chosen is not None and self._count not in (None, len(hidden)):
            raise RuntimeError(f"languages of {self._count} rows for a batch of {len(hidden)}")
        if chosen is None and self._prompts:
            rows, self._prompts = self._prompts[: len(hidden)], self._prompts[len(hidden) :]
            if len(rows) < len(hidden):
                raise RuntimeError(f"languages of {len(rows)} rows for prompts of {len(hidden)}")
        else:
            rows = [(chosen or {}).get(row, "") for row in range(len(hidden))]
        names = tuple(sorted(set(rows)))
        if names in ((), ("",)):
            return whole(hidden)
        if names != self._names or self._ids.device != hidden.device:
            members = torch.stack([self._member(name) for name in names])
            union = members.any(0)
            self._ids = union.nonzero()[:, 0].to(hidden.device)
            self._outside = ~members.to(hidden.device)
            self._inner = self._outside[:, self._ids]
            self._names = names
        place = torch.tensor([names.index(row) for row in rows], device=hidden.device)
        if part is None or len(self._ids) > SHARE * self._size:
            return whole(hidden).masked_fill(self._outside[place], -torch.inf)
        some = part(hidden, self._ids)
        if len(names) > 1:
            some = some.masked_fill(self._inner[place], -torch.inf)
        logits = some.new_full((len(hidden), self._size), -torch.inf)
        return logits.index_copy_(1, self._ids, some)


def move_to_host(
    tables: Iterable[torch.nn.Parameter],
    view: Callable[[torch.Tensor], torch.Tensor],
    *,
    pin: bool = True,
) -> None:
    """Replace the memory of tables by host memory; their values stay.

    Args:
        tables: a tied one may come twice.
        view: a tensor of the host → the same memory as a tensor of the accelerator.
        pin: whether that memory is page-locked, which a view needs.
    """
    for table in {id(each): each for each in tables}.values():
        host = torch.empty_like(table, device="cpu", pin_memory=pin, requires_grad=False)
        table.data = view(host.copy_(table.data))
