"""The model as training sees it: two row tables around Megatron's backbone.

`forward` takes ids of T and the rows of V_S; it never sees |T|.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from modtok_cli.pretrain import megatron
from modtok_cli.pretrain.loss import sliced_cross_entropy
from modtok_cli.pretrain.optimizer import backbone_optimizer, clip, gradient_norm
from modtok_cli.pretrain.presets import Shape
from modtok_cli.pretrain.ranks import Ranks, union_of_rows
from modtok_cli.pretrain.rows import AdamW, RowTable

CLIP = 1.0


@dataclass(frozen=True)
class Active:
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
class Micro:
    """A microbatch on the device.

    Attributes:
        inputs: (B, S) int64, ids of T.
        targets: (B · S,) int64, ids of T.
        vocabulary: (|V_S|,) int64, ascending: ids of T that may be predicted.
        weights: (B · S,) float32, of each token in the loss.
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
    ) -> Micro:
        """From arrays: `inputs` in ids of T, `targets` in local ids of `global_ids`.

        Without `weights` the loss is the mean over the tokens.
        """
        vocabulary = torch.from_numpy(global_ids.astype(np.int64))
        chosen = torch.from_numpy(targets.astype(np.int64).ravel())
        if weights is None:
            weights = np.full(targets.size, 1.0 / targets.size, dtype=np.float32)
        return Micro(
            torch.from_numpy(inputs.astype(np.int64)).to(device),
            vocabulary[chosen].to(device),
            vocabulary.to(device),
            torch.from_numpy(weights.ravel()).to(device),
        )


class Model:
    """Tables, backbone and their optimizers on one rank.

    Attributes:
        input, output: the tables; one and the same when tied.
    """

    def __init__(
        self,
        shape: Shape,
        vocabulary: int,
        ranks: Ranks,
        *,
        seed: int = 0,
        tied: bool = False,
        dtype: torch.dtype = torch.float32,
        recompute: bool = False,
        adamw: AdamW | None = None,
        chunk: int = 2048,
        distributed: bool = False,
    ) -> None:
        self.shape, self.ranks, self.dtype, self.tied = shape, ranks, dtype, tied
        self._adamw, self._chunk = adamw or AdamW(), chunk
        self.input = self._table(vocabulary, 2 * seed + 1)
        self.output = self.input if tied else self._table(vocabulary, 2 * seed + 2)
        self.backbone = megatron.build_backbone(
            shape,
            shards=ranks.shards,
            device=ranks.device,
            dtype=dtype,
            seed=seed,
            recompute=recompute,
            distributed=distributed,
        )
        self.optimizer = backbone_optimizer(
            self.backbone, self._adamw, ranks, distributed=distributed
        )

    def _table(self, size: int, seed: int) -> RowTable:
        ranks = self.ranks
        table = RowTable(
            size, self.shape.width, shard=ranks.shard, shards=ranks.shards, device=ranks.device
        )
        table.initialize(seed)
        return table

    @property
    def tables(self) -> dict[str, RowTable]:
        """The tables by name; one when tied."""
        return {"table": self.input} if self.tied else {"input": self.input, "output": self.output}

    def activate(self, micros: Sequence[Micro], *, training: bool = True) -> tuple[Active, Active]:
        """Gather the rows of some microbatches: (input, output); the same object when tied."""
        output = self._active(self.output, [m.vocabulary for m in micros], training)
        if self.tied:
            return output, output
        return self._active(self.input, [m.inputs.flatten() for m in micros], training), output

    def _active(self, table: RowTable, ids: list[torch.Tensor], training: bool) -> Active:
        wanted = table.mine(torch.unique(torch.cat(ids)))
        return Active(wanted, table.gather(wanted, self.dtype).requires_grad_(training))

    def hidden(self, inputs: torch.Tensor, active: Active) -> torch.Tensor:
        """Hidden states behind the final norm, (B, S) ids of T to (S, B, d)."""
        ids = inputs.t()
        if self.ranks.shards == 1:
            return self.backbone(torch.nn.functional.embedding(active.find(ids), active.rows))
        here = ids % self.ranks.shards == self.ranks.shard
        places = active.find(torch.where(here, ids, torch.zeros_like(ids)))
        if len(active.ids):
            found = torch.nn.functional.embedding(
                places.clamp(max=len(active.ids) - 1), active.rows
            ) * here.unsqueeze(-1).to(self.dtype)
        else:
            found = torch.zeros(*ids.shape, self.shape.width, dtype=self.dtype, device=ids.device)
        return self.backbone(megatron.sum_over_shards(found))

    def loss(
        self, micro: Micro, active: tuple[Active, Active]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Weighted loss of a microbatch, and nll of each token (B · S,) in nats."""
        x_SBd = self.hidden(micro.inputs, active[0])
        hidden = x_SBd.transpose(0, 1).reshape(-1, self.shape.width)
        own = self.output.mine(micro.vocabulary)
        rows = active[1].rows
        if len(own) != len(active[1].ids):
            rows = rows.index_select(0, active[1].find(own))
        columns = torch.searchsorted(own, micro.targets)
        if self.ranks.shards > 1:
            here = micro.targets % self.ranks.shards == self.ranks.shard
            columns = torch.where(here, columns, torch.full_like(columns, -1))
        return sliced_cross_entropy(
            hidden, rows, columns, micro.weights, group=self.ranks.shard_group, chunk=self._chunk
        )

    def step(
        self, micros: Sequence[Micro], rate: float, *, dense: bool = False
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """One training step over this rank's microbatches.

        Returns:
            nll of each microbatch's tokens, and the norm of the gradient before clipping,
            over all of the model. If it is not finite nothing was changed.
        """
        self.backbone.clear_gradients()
        active = self.activate(micros)
        losses = []
        for index, micro in enumerate(micros):
            with self.backbone.accumulating(more=index + 1 < len(micros)):
                loss, nll = self.loss(micro, active)
                (loss / len(micros)).backward()  # type: ignore[no-untyped-call]
            losses.append(nll)
        gradients = self.optimizer.own(self.backbone.finish_gradients())
        unions = {
            name: union_of_rows(chosen.ids, _gradient(chosen), self.ranks)
            for name, chosen in zip(self.tables, active, strict=False)
        }
        rows = [gradient for _, gradient in unions.values()]
        norm = gradient_norm(
            gradients,
            self.backbone.parameters,
            rows,
            self.ranks,
            dealt=self.optimizer.distributed,
        )
        if bool(torch.isfinite(norm)):
            clip([*gradients.values(), *rows], norm, CLIP)
            self.optimizer.step(gradients, rate)
            for name, table in self.tables.items():
                update = table.update_dense if dense else table.update
                update(*unions[name], rate, self._adamw)
        return losses, norm

    @torch.no_grad()
    def measure(self, micro: Micro) -> torch.Tensor:
        """nll of each token of a microbatch, without training."""
        return self.loss(micro, self.activate([micro], training=False))[1]


def _gradient(active: Active) -> torch.Tensor:
    """Gradient of the gathered rows; zeros if no token touched any on this shard."""
    gradient = active.rows.grad
    return torch.zeros_like(active.rows) if gradient is None else gradient
