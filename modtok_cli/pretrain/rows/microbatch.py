"""What a step works on: microbatches, and the rows of the tables that they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from modtok_cli.pretrain.rows.table import RowTable


@dataclass(frozen=True)
class GatheredRows:
    """Rows of a table that a step works with.

    Attributes:
        ids: (n,) int64, ascending, those of this shard.
        rows: (n, d), a leaf that gathers their gradients.
    """

    ids: torch.Tensor
    rows: torch.Tensor

    def find(self, ids: torch.Tensor) -> torch.Tensor:
        """Places in `rows` of ids that are among them."""
        return torch.searchsorted(self.ids, ids.contiguous())


@dataclass(frozen=True)
class MicroBatch:
    """A microbatch on the device.

    Attributes:
        inputs: (B, S) int64, ids of T.
        targets: (B · S,) int64, ids of T.
        vocabulary: (|V_S|,) int64, ascending: ids of T that may be predicted.
        weights: (B · S,) float32, of each token in the loss.
        host: inputs and vocabulary in host memory; None where that is the device's.
    """

    inputs: torch.Tensor
    targets: torch.Tensor
    vocabulary: torch.Tensor
    weights: torch.Tensor
    host: tuple[torch.Tensor, torch.Tensor] | None = None

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
            None if device.type == "cpu" else (tokens, vocabulary),
        )

    @property
    def on_host(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Inputs and vocabulary in host memory."""
        return self.host or (self.inputs.cpu(), self.vocabulary.cpu())


def wanted_rows(
    tables: dict[str, RowTable], micros: Sequence[MicroBatch], *, host: bool = False
) -> dict[str, torch.Tensor]:
    """Ids of this shard's rows that some microbatches need, ascending, by table.

    Of the output table (and of the one table when tied) those of the vocabularies, of the
    input table the tokens that occur. On the device, or with `host` in host memory.
    """
    both = [m.on_host if host else (m.inputs, m.vocabulary) for m in micros]
    found = {}
    for name, table in tables.items():
        ids = [inputs.flatten() if name == "input" else rows for inputs, rows in both]
        found[name] = table.mine(torch.unique(torch.cat(ids)))
    return found
