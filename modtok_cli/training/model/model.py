"""The model: two row tables around Megatron's backbone.

The forward pass takes ids of T and the rows of V_S; its cost does not depend on |T|. How the parts
make a training step is in `training.step`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from modtok_cli.model.architecture.shape import Shape
from modtok_cli.training.distributed.ranks import Ranks
from modtok_cli.training.model import megatron
from modtok_cli.training.model.execution import Execution, InitStd, compile_failure
from modtok_cli.training.model.loss import CHUNK, sliced_cross_entropy
from modtok_cli.training.model.optimizer import backbone_optimizer
from modtok_cli.training.model.phases import Phases
from modtok_cli.training.model.products import IN_FLOAT32
from modtok_cli.training.rows.copies import Warn, copies_for
from modtok_cli.training.rows.exchange import PlacedPlan, RowExchange
from modtok_cli.training.rows.host_tables import Offload
from modtok_cli.training.rows.microbatch import GatheredRows, MicroBatch, active_ids
from modtok_cli.training.rows.offload import Rows
from modtok_cli.training.rows.table import AdamW, RowTable

__all__ = ["GatheredRows", "MicroBatch", "Model"]


@dataclass(frozen=True)
class ActivePlan:
    """The active rows of some microbatches, by table.

    Attributes:
        own: ids that this rank owns, in host memory.
        gathered, updated: what is gathered, and what of it is updated.
    """

    microbatches: Sequence[MicroBatch]
    own: dict[str, torch.Tensor]
    gathered: dict[str, PlacedPlan]
    updated: dict[str, PlacedPlan]


class Model:
    """Tables, backbone and their optimizers on one rank.

    Every rank owns a share of the rows of a table, and a step gathers its active rows from their
    owners: `plan`, `gather`, `reduce`, `activate` and `measure` are collective.

    Attributes:
        input, output: this rank's share of the tables; one and the same when tied.
        exchange: exchanges rows with the other replicas.
        phases: what steps are spent on.
        offloaded: moves their rows if they are in host memory, else None.
        clip: norm that a step clips the gradient of all parameters to; 0 does not clip.
        only_rows: (V,) bool, the rows that a step updates; all others and the backbone are
            frozen. None: everything is trained.
        end_of_text: id of the token that starts each document; tokens then attend to their own
            document only. None: packed documents see those before them.

    `z_loss` is a coefficient, see `loss`; `warn` is told if memory cannot be pinned.
    """

    def __init__(
        self,
        shape: Shape,
        vocabulary: int,
        ranks: Ranks,
        *,
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        recompute: int = 0,
        adamw: AdamW | None = None,
        clip: float = 1.0,
        z_loss: float = 0.0,
        init: InitStd | None = None,
        chunk: int = CHUNK,
        distributed: bool = False,
        execution: Execution | None = None,
        offload: Offload | None = None,
        only_rows: torch.Tensor | None = None,
        end_of_text: int | None = None,
        warn: Warn = print,
    ) -> None:
        self.end_of_text, self.only_rows = end_of_text, only_rows
        self.shape, self.ranks, self.dtype, self.tied = shape, ranks, dtype, shape.tied
        self.clip, self._adamw = clip, adamw or AdamW()
        self._chunk, self._z_loss, self._init = chunk, z_loss, init or InitStd()
        self._recompute = recompute
        if execution is not None and execution.fused and (why := compile_failure(ranks.device)):
            warn(f"torch.compile does not work here ({why}): kernels are not fused")
            execution = replace(execution, fused=False)
        self._fused = execution is not None and execution.fused
        # Flash attention has neither float32 nor heads of other widths.
        self._bounded = (
            self._fused
            and end_of_text is not None
            and dtype != torch.float32
            and shape.head_width in range(8, 257, 8)
            and megatron.document_attention() is not None
        )
        self.copies, self.phases = copies_for(ranks.device, warn), Phases(ranks.device)
        self.exchange = RowExchange(ranks, self.copies)
        self._ahead: ActivePlan | None = None
        self._host_seconds: dict[str, float] = {}
        self.input = self._table(vocabulary, 2 * seed + 1, offload)
        self.output = self.input if shape.tied else self._table(vocabulary, 2 * seed + 2, offload)
        self.offloaded = None
        if offload is not None:
            self.offloaded = offload.rows(ranks, self.tables, dtype, self._adamw)
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

    def _table(self, size: int, seed: int, offload: Offload | None) -> RowTable:
        ranks, width = self.ranks, self.shape.hidden_size
        if offload is not None:
            table = offload.table(ranks, size, width)
        else:
            shard, shards = ranks.row_shard, ranks.row_shards
            table = RowTable(
                size, width, shard=shard, shards=shards, device=ranks.device, fused=self._fused
            )
        table.initialize(seed, self._init.embeddings)
        return table

    @property
    def tables(self) -> dict[str, RowTable]:
        """The tables by name; one when tied."""
        return {"table": self.input} if self.tied else {"input": self.input, "output": self.output}

    def plan(self, microbatches: Sequence[MicroBatch]) -> ActivePlan:
        """The active rows of a step; known if `plan_ahead` was called with it last."""
        if self._ahead is not None and self._ahead.microbatches is microbatches:
            return self._ahead
        plans = self.exchange.plan(active_ids(self.tables, microbatches, self.ranks))
        every = list(plans.values())
        if self.only_rows is not None:
            every += [plan.among(self.only_rows) for plan in every]
        placed = self.exchange.place(every)
        return ActivePlan(
            microbatches,
            {name: plan.own for name, plan in plans.items()},
            dict(zip(plans, placed, strict=False)),
            dict(zip(plans, placed[-len(plans) :], strict=True)),
        )

    def plan_ahead(self, microbatches: Sequence[MicroBatch]) -> ActivePlan:
        """Plan the next step while the device computes."""
        self._ahead = self.plan(microbatches)
        return self._ahead

    def gather(
        self, plan: ActivePlan, *, training: bool = True
    ) -> tuple[GatheredRows, GatheredRows]:
        """The rows of a plan from their owners: (input, output); the same object when tied."""
        if self.offloaded is None:
            own = {
                name: table.gather(plan.gathered[name].own, self.dtype)
                for name, table in self.tables.items()
            }
        elif training:
            own = self.offloaded.begin(plan.own)
        else:
            own = self.offloaded.read(plan.own)
        # Rows of the output arrive while the device computes the forward pass.
        gathered = [
            GatheredRows(part.ids, self.exchange.gather(part, own[name]), training)
            for name, part in plan.gathered.items()
        ]
        _ = gathered[0].rows  # needed at once
        return gathered[0], gathered[-1]

    def proceed(self, upcoming: Sequence[MicroBatch] | None) -> None:
        """Update and prefetch offloaded rows while the device computes a step that has begun.

        `upcoming` are the microbatches of the next step, if known.
        """
        if self.offloaded is not None:
            self.offloaded.proceed(None if upcoming is None else self.plan_ahead(upcoming).own)

    def activate(
        self, microbatches: Sequence[MicroBatch], *, training: bool = True
    ) -> tuple[GatheredRows, GatheredRows]:
        """Plan and gather the rows of some microbatches."""
        return self.gather(self.plan(microbatches), training=training)

    def hidden(
        self,
        inputs: torch.Tensor,
        active: GatheredRows,
        documents: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Hidden states after the final norm, (B, S) ids of T to (S, B, d).

        With `end_of_text`, `documents` of the microbatch, if known, make a mask needless on a GPU.
        """
        ids = inputs.t()
        mask = documents if self._bounded else None
        if self.end_of_text is not None and mask is None:
            mask = megatron.document_mask(inputs, self.end_of_text)
        if self.ranks.shards == 1:
            rows = torch.nn.functional.embedding(active.find(ids), active.rows)
            return self.backbone(self.shape.scaled(rows), mask)
        here = ids % self.ranks.shards == self.ranks.shard
        places = active.find(torch.where(here, ids, torch.zeros_like(ids)))
        if len(active.ids):
            places = places.clamp(max=len(active.ids) - 1)
            rows = torch.nn.functional.embedding(places, active.rows)
            rows = rows * here.unsqueeze(-1).to(self.dtype)
        else:
            size = (*ids.shape, self.shape.hidden_size)
            rows = torch.zeros(size, dtype=self.dtype, device=ids.device)
        return self.backbone(self.shape.scaled(self.backbone.sum_over_shards(rows)), mask)

    def cross_entropy(
        self, hidden: torch.Tensor, microbatch: MicroBatch, active: GatheredRows
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Weighted loss of hidden states (S, B, d), and nll of each token (B · S,) in nats."""
        hidden = hidden.transpose(0, 1).reshape(-1, self.shape.hidden_size)
        if (factor := self.shape.logit_factor) != 1:
            hidden = hidden * factor
        own = microbatch.vocabulary
        columns = torch.searchsorted(own, microbatch.targets)
        if self.ranks.shards > 1:
            here = microbatch.targets % self.ranks.shards == self.ranks.shard
            columns = torch.where(here, columns, torch.full_like(columns, -1))
        return sliced_cross_entropy(
            hidden,
            active.rows,
            columns,
            microbatch.weights,
            places=None if len(own) == len(active.ids) else active.find(own),
            group=self.ranks.shard_group,
            chunk=self._chunk,
            z_loss=self._z_loss,
            fused=self._fused,
            cap=self.shape.logit_cap,
        )

    def loss(
        self, microbatch: MicroBatch, active: tuple[GatheredRows, GatheredRows]
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Forward pass and loss of a microbatch; see `cross_entropy`."""
        hidden = self.hidden(microbatch.inputs, active[0], microbatch.documents)
        return self.cross_entropy(hidden, microbatch, active[1])

    def reduce(self, plan: ActivePlan, active: Sequence[GatheredRows]) -> Rows:
        """By table, the rows that this rank owns and a step updates, and their gradients."""
        reduced = {}
        for (name, part), gathered in zip(plan.updated.items(), active, strict=False):
            ids = part.own if self.offloaded is None else part.plan.own
            reduced[name] = ids, self.exchange.reduce(part, gathered.gradient)
        return reduced

    def update(self, rows: Rows, lr: float, dense: bool, finite: torch.Tensor) -> None:
        """AdamW on rows by their gradients, on whole tables if `dense`; nothing if not `finite`."""
        if self.offloaded is not None:
            assert not dense
            self.offloaded.update(rows, lr, finite)
            return
        for name, table in self.tables.items():
            update = table.update_dense if dense else table.update
            update(*rows[name], lr, self._adamw, finite)

    @property
    def kernels(self) -> dict[str, Any]:
        """The kernel of each computation on a GPU; empty on a CPU."""
        if self.ranks.device.type != "cuda":
            return {}
        attentions = self.backbone.attentions
        attention = attentions[0].kernel if attentions else "transformer_engine"
        documents = "varlen" if self._bounded else "mask"
        return {
            "attention": attention if self.end_of_text is None else documents,
            "compiled": self._fused,
            "float32_products": IN_FLOAT32,
            "loss_chunk": self._chunk,
            "recompute": self._recompute,
        }

    @property
    def host_seconds(self) -> dict[str, float]:
        """Seconds of the offload thread so far, and of steps that waited for it."""
        return asdict(self.offloaded.seconds) if self.offloaded is not None else {}

    def take_host_seconds(self) -> dict[str, float]:
        """`host_seconds` since the last call."""
        now, before = self.host_seconds, self._host_seconds
        self._host_seconds = now
        return {name: seconds - before.get(name, 0.0) for name, seconds in now.items()}

    def drain(self) -> None:
        """Apply what is pending, before anything but a step uses the weights. Collective.

        Replicas then have each other's weights, and offloaded tables the gradients of all steps.
        """
        self.backbone.gather_weights()
        if self.offloaded is not None:
            self.offloaded.drain()

    def close(self) -> None:
        """Stop background threads."""
        if self.offloaded is not None:
            self.offloaded.close()

    @torch.no_grad()
    def measure(self, microbatch: MicroBatch | None) -> torch.Tensor:
        """nll of each token of a microbatch, without training. Collective.

        None takes part in a `measure` of other replicas; the result is empty.
        """
        if microbatch is None:
            for gathered in self.activate([], training=False):
                assert not len(gathered.rows)
            return torch.empty(0)
        return self.loss(microbatch, self.activate([microbatch], training=False))[1]
