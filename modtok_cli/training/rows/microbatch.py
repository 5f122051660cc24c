"""Microbatches on the device, and the table rows that they need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from modtok_cli.training.distributed.ranks import Ranks


@dataclass(frozen=True)
class GatheredRows:
    """The active rows of a table in a step.

    Attributes:
        ids: (n,) int64, ascending, ids of this shard.
        rows: (n, d), a leaf tensor that accumulates their gradients.
    """

    ids: torch.Tensor
    rows: torch.Tensor

    def find(self, ids: torch.Tensor) -> torch.Tensor:
        """Positions in `rows` of ids that are among them."""
        return torch.searchsorted(self.ids, ids.contiguous())


@dataclass(frozen=True)
class MicroBatch:
    """A microbatch on the device.

    Attributes:
        inputs: (B, S) int64, ids of T.
        targets: (B · S,) int64, ids of T.
        vocabulary: (|V_S|,) int64, ascending ids of T: the output vocabulary.
        weights: (B · S,) float32, weight of each token in the loss.
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    vocabulary: torch.Tensor
    weights: torch.Tensor

    @staticmethod
    def of(
        inputs: npt.NDArray[np.int32],
        targets: npt.NDArray[np.int32],
        global_ids: npt.NDArray[np.int32],
        device: torch.device,
        weights: npt.NDArray[np.float32] | None = None,
    ) -> MicroBatch:
        """From arrays: `inputs` in ids of T, `targets` in local ids of `global_ids`.

        Without `weights` the loss is the mean over the tokens.
        """
        vocabulary = torch.from_numpy(global_ids.astype(np.int64))
        chosen = torch.from_numpy(targets.astype(np.int64).ravel())
        tokens = torch.from_numpy(inputs.astype(np.int64))
        if weights is None:
            weights = np.full(targets.size, 1.0 / targets.size, dtype=np.float32)
        return MicroBatch(
            tokens.to(device),
            vocabulary[chosen].to(device),
            vocabulary.to(device),
            torch.from_numpy(weights.ravel()).to(device),
        )


def active_ids(
    tables: Iterable[str], microbatches: Sequence[MicroBatch], ranks: Ranks
) -> dict[str, torch.Tensor]:
    """Ids of this shard's rows that the microbatches need, ascending, by name of table.

    For the output table (and the single table if tied) the ids of the vocabularies; for the
    input table the input ids.
    """
    found = {}
    for name in tables:
        ids = [m.inputs.flatten() if name == "input" else m.vocabulary for m in microbatches]
        none = torch.empty(0, dtype=torch.int64, device=ranks.device)
        found[name] = ranks.mine(torch.unique(torch.cat([none, *ids])))
    return found
