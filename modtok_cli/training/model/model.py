"""The model: two row tables around Megatron's backbone.

The forward pass takes ids of T and the rows of V_S; its cost does not depend on |T|.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch

from modtok_cli.architectures.shape import Shape
from modtok_cli.training.distributed.ranks import Ranks
from modtok_cli.training.model import megatron
from modtok_cli.training.model.attention import document_mask
from modtok_cli.training.model.execution import Execution
from modtok_cli.training.model.initialization import InitStd
from modtok_cli.training.model.loss import sliced_cross_entropy
from modtok_cli.training.model.optimizer import backbone_optimizer, clip, gradient_norm
from modtok_cli.training.rows.exchange import RowExchange, RowPlan
from modtok_cli.training.rows.host_tables import Offload, TableMaker
from modtok_cli.training.rows.microbatch import GatheredRows, MicroBatch, active_ids
from modtok_cli.training.rows.table import AdamW, RowTable

__all__ = ["GatheredRows", "MicroBatch", "Model"]


class Model:
    """Tables, backbone and their optimizers on one rank.

    Every rank owns a share of the rows of a table, and a step gathers its active rows from their
    owners: `step`, `activate` and `measure` are collective.

    Attributes:
        input, output: this rank's share of the tables; one and the same when tied.
        exchange: exchanges rows with the other replicas.
        offloaded: moves their rows if they are in host memory, else None.
        only_rows: (V,) bool, the rows that a step updates; all others and the backbone are
            frozen. None: everything is trained.
        end_of_text: id of the token that starts each document; tokens then attend to their own
            document only. None: packed documents see those before them.

    A step clips the gradient of all parameters to norm `clip`; 0 does not clip. `z_loss` is a
    coefficient, see `loss`.
    """

    def __init__(
        self,
        shape: Shape,
        vocabulary: int,
        ranks: Ranks,
        *,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        recompute: bool = False,
        adamw: AdamW | None = None,
        clip: float = 1.0,
        z_loss: float = 0.0,
        init: InitStd | None = None,
        chunk: int = 2048,
        distributed: bool = False,
        execution: Execution | None = None,
        offload: Offload | None = None,
        only_rows: torch.Tensor | None = None,
        end_of_text: int | None = None,
    ) -> None:
        self.end_of_text = end_of_text
        self.only_rows = None if only_rows is None else only_rows.to(ranks.device)
        self.shape, self.ranks, self.dtype, self.tied = shape, ranks, dtype, shape.tied
        self._adamw, self._chunk = adamw or AdamW(), chunk
        self._clip, self._z_loss, self._init = clip, z_loss, init or InitStd()
        self.exchange = RowExchange(ranks)
        self._ahead: _Plans | None = None
        maker = TableMaker(ranks, offload) if offload else None
        self.input = self._table(vocabulary, 2 * seed + 1, maker)
        self.output = self.input if shape.tied else self._table(vocabulary, 2 * seed + 2, maker)
        self.offloaded = maker.rows(self.tables, dtype, self._adamw) if maker else None
        self.backbone = megatron.build_backbone(
            shape,
            shards=ranks.shards,
            device=ranks.device,
            dtype=dtype,
            seed=seed,
            recompute=recompute,
            distributed=distributed,
            masked=end_of_text is not None,
            execution=execution,
            init=self._init,
        )
        self.optimizer = backbone_optimizer(
            self.backbone, self._adamw, ranks, distributed=distributed
        )
        if self.only_rows is not None:
            # Gradients of the backbone's weights are neither computed nor exchanged; gradients
            # pass through it to the input rows.
            self.backbone.freeze()

    def _table(self, size: int, seed: int, maker: TableMaker | None) -> RowTable:
        ranks, width = self.ranks, self.shape.hidden_size
        if maker is not None:
            return maker.table(size, width, seed, self._init.embeddings)
        shard, shards = ranks.row_shard, ranks.row_shards
        table = RowTable(size, width, shard=shard, shards=shards, device=ranks.device)
        table.initialize(seed, self._init.embeddings)
        return table

    @property
    def tables(self) -> dict[str, RowTable]:
        """The tables by name; one when tied."""
        return {"table": self.input} if self.tied else {"input": self.input, "output": self.output}

    def activate(
        self, microbatches: Sequence[MicroBatch], *, training: bool = True
    ) -> tuple[GatheredRows, GatheredRows]:
        """Gather the rows of some microbatches: (input, output); the same object when tied."""
        return self._pair(self._gather(self._plan(microbatches), training))

    def _plan(self, microbatches: Sequence[MicroBatch]) -> _Plans:
        """The active rows of a step; known for the one that was `upcoming` in the last call."""
        if self._ahead is not None and self._ahead.microbatches is microbatches:
            return self._ahead
        plans = self.exchange.plan(active_ids(self.tables, microbatches, self.ranks))
        return _Plans(microbatches, plans, {name: plan.own for name, plan in plans.items()})

    def _gather(
        self, plans: _Plans, training: bool, upcoming: _Plans | None = None
    ) -> dict[str, GatheredRows]:
        if self.offloaded is None:
            tables = self.tables.items()
            own = {name: table.gather(plans.own[name], self.dtype) for name, table in tables}
        elif training:
            own = self.offloaded.begin(plans.own, upcoming.own if upcoming else None)
        else:
            own = self.offloaded.read(plans.own)
        gathered = {}
        for name, plan in plans.tables.items():
            rows = self.exchange.gather(plan, own[name])
            gathered[name] = GatheredRows(plan.ids, rows.requires_grad_(training))
        return gathered

    def _named(self, active: tuple[GatheredRows, GatheredRows]) -> dict[str, GatheredRows]:
        """Gathered rows by table; one when tied."""
        return dict(zip(self.tables, active, strict=False))

    def _pair(self, found: dict[str, GatheredRows]) -> tuple[GatheredRows, GatheredRows]:
        return (found["table"],) * 2 if self.tied else (found["input"], found["output"])

    def hidden(self, inputs: torch.Tensor, active: GatheredRows) -> torch.Tensor:
        """Hidden states after the final norm, (B, S) ids of T to (S, B, d)."""
        ids = inputs.t()
        mask = None if self.end_of_text is None else document_mask(inputs, self.end_of_text)
        if self.ranks.shards == 1:
            rows = torch.nn.functional.embedding(active.find(ids), active.rows)
            return self.backbone(rows, mask)
        here = ids % self.ranks.shards == self.ranks.shard
        places = active.find(torch.where(here, ids, torch.zeros_like(ids)))
        if len(active.ids):
            found = torch.nn.functional.embedding(
                places.clamp(max=len(active.ids) - 1), active.rows
            ) * here.unsqueeze(-1).to(self.dtype)
        else:
            size = (*ids.shape, self.shape.hidden_size)
            found = torch.zeros(size, dtype=self.dtype, device=ids.device)
        return self.backbone(self.backbone.sum_over_shards(found), mask)

    def loss(
        self, microbatch: MicroBatch, active: tuple[GatheredRows, GatheredRows]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Weighted loss of a microbatch, and nll of each token (B · S,) in nats."""
        x_SBd = self.hidden(microbatch.inputs, active[0])
        hidden = x_SBd.transpose(0, 1).reshape(-1, self.shape.hidden_size)
        own = self.ranks.mine(microbatch.vocabulary)
        rows = active[1].rows
        if len(own) != len(active[1].ids):
            rows = rows.index_select(0, active[1].find(own))
        columns = torch.searchsorted(own, microbatch.targets)
        if self.ranks.shards > 1:
            here = microbatch.targets % self.ranks.shards == self.ranks.shard
            columns = torch.where(here, columns, torch.full_like(columns, -1))
        return sliced_cross_entropy(
            hidden,
            rows,
            columns,
            microbatch.weights,
            group=self.ranks.shard_group,
            chunk=self._chunk,
            z_loss=self._z_loss,
        )

    def step(
        self,
        microbatches: Sequence[MicroBatch],
        lr: float,
        *,
        dense: bool = False,
        upcoming: Sequence[MicroBatch] | None = None,
    ) -> tuple[list[torch.Tensor], torch.Tensor]:
        """One training step over this rank's microbatches.

        `upcoming` are the `microbatches` of the next call, if known: offloaded rows are then
        prefetched. `dense` requires tables on the device.

        Returns:
            nll of each microbatch's tokens, and the gradient norm of the whole model before
            clipping. If the norm is not finite, nothing is updated.
        """
        self.backbone.clear_gradients()
        plans, ahead = self._plan(microbatches), None
        if self.offloaded is not None and upcoming is not None:
            ahead = self._ahead = self._plan(upcoming)
        active = self._pair(self._gather(plans, True, ahead))
        losses = []
        sums = {name: _GradientSum(chosen) for name, chosen in self._named(active).items()}
        for index, microbatch in enumerate(microbatches):
            with self.backbone.accumulating(more=index + 1 < len(microbatches)):
                loss, nll = self.loss(microbatch, active)
                (loss / len(microbatches)).backward()  # type: ignore[no-untyped-call]
            losses.append(nll)
            for one in sums.values():
                one.add()
        gradients: dict[str, torch.Tensor] = {}
        if self.only_rows is None:
            gradients = self.optimizer.own(self.backbone.finish_gradients())
        unions = {name: self._reduced(plans.tables[name], one.total) for name, one in sums.items()}
        rows = [gradient for _, gradient in unions.values()]
        norm = gradient_norm(
            gradients,
            self.backbone.parameters,
            rows,
            self.ranks,
            sharded=self.optimizer.distributed,
        )
        if bool(torch.isfinite(norm)):
            clip([*gradients.values(), *rows], norm, self._clip)
            if self.only_rows is None:
                self.optimizer.step(gradients, lr)
            self._update(unions, lr, dense)
        return losses, norm

    def _reduced(self, plan: RowPlan, gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Rows that this rank owns and a step updates, and their mean gradients."""
        if self.only_rows is not None:
            gradients = gradients[self.only_rows[plan.ids]]
            plan = plan.among(self.only_rows)
        return plan.own, self.exchange.reduce(plan, gradients)

    def _update(
        self, unions: dict[str, tuple[torch.Tensor, torch.Tensor]], lr: float, dense: bool
    ) -> None:
        if self.offloaded is not None:
            assert not dense
            self.offloaded.update(unions, lr)
            return
        for name, table in self.tables.items():
            update = table.update_dense if dense else table.update
            update(*unions[name], lr, self._adamw)

    @property
    def host_seconds(self) -> dict[str, float]:
        """Seconds of the offload thread so far, and of steps that waited for it."""
        return asdict(self.offloaded.seconds) if self.offloaded is not None else {}

    def drain(self) -> None:
        """Apply pending updates of offloaded tables. Collective: every rank calls it."""
        if self.offloaded is not None:
            self.offloaded.drain()

    def close(self) -> None:
        """Stop background threads."""
        if self.offloaded is not None:
            self.offloaded.close()

    def idle(self) -> None:
        """Take part in a `measure` of other replicas, without a microbatch of its own."""
        self.activate([], training=False)

    @torch.no_grad()
    def measure(self, microbatch: MicroBatch) -> torch.Tensor:
        """nll of each token of a microbatch, without training. Collective: see `idle`."""
        return self.loss(microbatch, self.activate([microbatch], training=False))[1]


@dataclass(frozen=True)
class _Plans:
    """The active rows of some microbatches by table, and those that this rank owns."""

    microbatches: Sequence[MicroBatch]
    tables: dict[str, RowPlan]
    own: dict[str, torch.Tensor]


class _GradientSum:
    """Gradient of gathered rows, summed over microbatches in float32 as the backbone's is.

    In bfloat16 a sum over many microbatches would lose most of its digits.

    Attributes:
        total: (n, d) float32; zeros if no token used any row on this shard.
    """

    def __init__(self, rows: GatheredRows) -> None:
        self.rows = rows
        self._total: torch.Tensor | None = None

    def add(self) -> None:
        """Take over the gradient of the last microbatch."""
        gradient, self.rows.rows.grad = self.rows.rows.grad, None
        if gradient is None:
            return
        if self._total is None:
            self._total = gradient.float()
        else:
            self._total += gradient

    @property
    def total(self) -> torch.Tensor:
        if self._total is None:
            return torch.zeros_like(self.rows.rows, dtype=torch.float32)
        return self._total
