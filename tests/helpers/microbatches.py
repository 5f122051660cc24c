"""A microbatch from arrays."""

from __future__ import annotations

from dataclasses import replace

from modtok_cli.base.arrays import Int32Array
from modtok_cli.training.distributed.ranks import Ranks, start_ranks
from modtok_cli.training.rows.copies import copies_for
from modtok_cli.training.rows.microbatch import MicroBatch, microbatches_of


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
