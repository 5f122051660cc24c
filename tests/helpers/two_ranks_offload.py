"""Rows in host memory on two processes, against resident rows there and then, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from helpers.delayed_updates import LateModel
from helpers.microbatches import microbatch, packer
from helpers.random_delays import sleeper
from helpers.saved import save
from modtok_cli.architectures.families.llama import llama
from modtok_cli.base.progress import SILENT
from modtok_cli.training import checkpoint
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.data.text_store import TextStore
from modtok_cli.training.distributed.ranks import Ranks, gather_json, start_ranks
from modtok_cli.training.model.model import Model
from modtok_cli.training.rows.host_tables import Offload
from modtok_cli.training.rows.microbatch import MicroBatch
from modtok_cli.training.step import optimizer_step

SHAPE = llama(1, 32, 8, 88)
STEPS, BREAK = 5, 3
# name → (shards, slots a step, tied)
WAYS = {"tp": (2, 2, False), "dp": (1, 4, False), "dp-tied": (1, 2, True)}


def microbatches(
    ranks: Ranks, slots: int, subtokenizers: SubtokenizerCache, stores: dict[str, TextStore]
) -> list[list[MicroBatch]]:
    """This rank's microbatches of each step."""
    packers = [
        packer(subtokenizers, stores, slot, slots, seed=9)
        for slot in range(ranks.replica, slots, ranks.replicas)
    ]
    found = []
    for step in range(1, STEPS + 1):
        batches = [one.batch(step) for one in packers]
        ids = [subtokenizers.of(batch.draw.languages).global_ids for batch in batches]
        found.append(
            [
                microbatch(batch.inputs, batch.targets, rows, ranks, of=slots)
                for batch, rows in zip(batches, ids, strict=True)
            ]
        )
    return found


def run(model: Model, steps: Sequence[list[MicroBatch]], first: int, last: int) -> list[float]:
    """Train from one step to another: gradient norms and first losses."""
    seen = []
    for step in range(first, last):
        upcoming = steps[step + 1] if step + 1 < len(steps) and step % 3 else None
        losses, norm = optimizer_step(model, steps[step], 2e-3, upcoming=upcoming)
        seen += [float(norm), float(losses[0].sum())]
    return seen


def same(one: Model, other: Model) -> bool:
    return all(
        torch.equal(getattr(table, part), getattr(other.tables[name], part))
        for name, table in one.tables.items()
        for part in ("weight", "moment1", "moment2", "steps")
    )


def compare(
    out: Path, subtokenizers: SubtokenizerCache, stores: dict[str, TextStore]
) -> dict[str, dict[str, bool]]:
    """What holds on every rank, by way: {name: {claim: true or false}}."""
    return {name: _compare(out, name, subtokenizers, stores) for name in WAYS}


def _compare(
    out: Path, name: str, subtokenizers: SubtokenizerCache, stores: dict[str, TextStore]
) -> dict[str, bool]:
    shards, slots, tied = WAYS[name]
    ranks = start_ranks(shards)
    steps = microbatches(ranks, slots, subtokenizers, stores)

    def make(kind: type[Model], offload: Offload | None = None) -> Model:
        return kind(
            replace(SHAPE, tied=tied), subtokenizers.size, ranks, seed=4, chunk=16, offload=offload
        )

    holds: dict[str, bool] = {}
    resident, late = make(Model), make(LateModel)
    without = make(Model, Offload(delay=0, hook=sleeper(ranks.rank)))
    delayed = make(Model, Offload(delay=1, hook=sleeper(ranks.rank)))
    assert delayed.offloaded is not None
    holds["rows are shared out"] = all(
        len(table.weight) * 2 <= table.size + 1 for table in delayed.tables.values()
    )
    holds["losses, no delay"] = run(resident, steps, 0, STEPS) == run(without, steps, 0, STEPS)
    without.drain()
    holds["tables, no delay"] = same(resident, without)
    expected = run(late, steps, 0, STEPS)
    seen = run(delayed, steps, 0, BREAK)
    save(out / f"offload-{name}", delayed, BREAK)
    seen += run(delayed, steps, BREAK, STEPS)
    holds["losses, delayed"] = seen == expected
    late.finish()
    delayed.drain()
    holds["tables, delayed"] = same(late, delayed)
    again = make(Model, Offload(delay=1, hook=sleeper(ranks.rank)))
    last = checkpoint.newest(out / f"offload-{name}", SILENT)
    assert last is not None
    checkpoint.load(*last, again)
    holds["losses, resumed"] = run(again, steps, BREAK, STEPS) == seen[2 * BREAK :]
    again.drain()
    holds["tables, resumed"] = same(late, again)
    for model in (without, delayed, again):
        model.close()
    everyone = gather_json(ranks, holds)
    return {claim: all(one[claim] for one in everyone) for claim in holds}
