"""Packers of text, and microbatches from arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from modtok_cli.base.arrays import Int32Array
from modtok_cli.training.config import Config
from modtok_cli.training.data.sampling import Mixture, Regime
from modtok_cli.training.data.slot_packer import SlotPacker, StreamPlan, StreamPosition
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.data.text_store import TextStore
from modtok_cli.training.distributed.ranks import Ranks, start_ranks
from modtok_cli.training.model.model import Model
from modtok_cli.training.rows.copies import copies_for
from modtok_cli.training.rows.microbatch import MicroBatch, microbatches_of
from modtok_cli.training.step import apply, mean_gradients


def packer(
    subtokenizers: SubtokenizerCache,
    stores: Mapping[str, TextStore],
    slot: int = 0,
    slots: int = 1,
    positions: Mapping[str, StreamPosition] | None = None,
    **changes: Any,
) -> SlotPacker:
    """The packer of a slot, which has a draw of its own; `changes` are fields of the plan."""
    mixture = Mixture.of({name: store.text_bytes for name, store in stores.items()})
    options: dict[str, Any] = {
        "regime": Regime.parse("sub:1"), "p": 0.5, "mixture": mixture, "seed": 3, "group": 1,
        "length": 24,
    }  # fmt: skip
    plan = StreamPlan(Path(), {}, slots=slots, **options | changes)
    return SlotPacker(plan, slot, stores, subtokenizers, positions)


def plan_of(
    config: Config, tokenizer: Path, stores: Mapping[str, TextStore], replicas: int = 1
) -> StreamPlan:
    """The plan of a run that trains on these stores."""
    return StreamPlan(
        tokenizer=tokenizer,
        stores={language: store.directory for language, store in stores.items()},
        regime=config.sampling.regime,
        p=config.sampling.p,
        mixture=Mixture.of(
            {name: store.text_bytes for name, store in stores.items()}, config.sampling.mix
        ),
        seed=config.init.seed,
        slots=config.data.batch_size,
        group=config.group_size,
        length=config.data.seq_length,
    )


def microbatch(
    inputs: Int32Array,
    targets: Int32Array,
    ids: Int32Array,
    ranks: Ranks | None = None,
    *,
    of: int = 1,
) -> MicroBatch:
    """One `of` the equal microbatches of a step: inputs in ids of T, targets in local ids, V_S."""
    ranks = ranks or start_ranks()
    (one,) = microbatches_of([(inputs, targets, ids)], ranks, copies_for(ranks.device, print))
    return replace(one, weights=one.weights / of)


def optimizer_step(
    model: Model,
    microbatches: Sequence[MicroBatch],
    lr: float,
    *,
    dense: bool = False,
    upcoming: Sequence[MicroBatch] | None = None,
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Train on this rank's microbatches. Collective.

    Returns:
        nll of each microbatch's tokens, and the gradient norm of the whole model before
        clipping. If the norm is not finite, as with an infinite loss, nothing is updated.
    """
    gradients = mean_gradients(model, microbatches, upcoming)
    apply(model, gradients, lr, dense=dense)
    model.phases.end()
    return gradients.losses, gradients.norm
