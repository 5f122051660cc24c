"""Two ranks of `test_parallel`: train in several ways, and checkpoints.

`python -m helpers.two_ranks TOKENIZER TEXTS OUT`, with RANK, WORLD_SIZE and MASTER_ADDR set.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
import torch.distributed as dist

from helpers.as_cuda import megatron_optimizer
from helpers.microbatches import microbatch, optimizer_step, packer
from helpers.ranks import small_buckets
from helpers.saved import save
from modtok_cli.model.architecture.families.llama import llama
from modtok_cli.model.architecture.registry import with_switches
from modtok_cli.training import checkpoint
from modtok_cli.training.data.subtokenizer_cache import SubtokenizerCache
from modtok_cli.training.data.text_store import TextStore
from modtok_cli.training.distributed.ranks import Ranks, start_ranks
from modtok_cli.training.model.execution import Execution, InitStd
from modtok_cli.training.model.model import Model
from modtok_cli.training.rows.microbatch import MicroBatch
from modtok_cli.training.rows.table import AdamW

SHAPE = llama(2, 32, 8, 88)
STEPS = 7
# name → (shards, slots a step, tied, dense, whose optimizer updates the backbone)
WAYS = {
    "tp-tied-sparse": (2, 1, True, False, "torch"),
    "dp-sparse": (1, 4, False, False, "torch"),
    "tp-micro": (2, 3, False, True, "torch"),
    "tp-megatron": (2, 2, False, False, "megatron"),
    "dp-megatron": (1, 2, True, False, "megatron"),
    "tp-knobs": (2, 2, True, False, "torch"),
    "tp-qk-norm": (2, 2, False, False, "megatron"),
    "dp-qk-norm": (1, 2, False, True, "torch"),
    "dp-distributed": (1, 4, False, False, "distributed"),
    "tp-sequence": (2, 2, False, False, "torch"),
    "tp-sequence-qk-norm": (2, 1, True, False, "megatron"),
    "dp-overlap": (1, 4, False, False, "torch"),
    "dp-overlap-distributed": (1, 4, True, False, "distributed"),
}
# How the two ranks execute; one process does none of it.
OVERLAP = Execution(overlap_grad_reduce=True)
EXECUTION = {
    "tp-sequence": Execution(sequence_parallel=True),
    "tp-sequence-qk-norm": Execution(sequence_parallel=True),
    "dp-overlap": OVERLAP,
    "dp-overlap-distributed": replace(OVERLAP, overlap_param_gather=True),
}
# Ways with a shape or options other than the default.
QK_NORM = ("tp-qk-norm", "dp-qk-norm", "tp-sequence-qk-norm")
SHAPES = dict.fromkeys(QK_NORM, with_switches(replace(SHAPE, qk_norm=True)))
KNOBS: dict[str, Any] = {
    "adamw": AdamW(0.8, 0.9, 1e-5, 0.5, ("matrices", "embeddings", "norms")),
    "clip": 0.3,
    "z_loss": 0.01,
    "init": InitStd(0.05, 0.03, 0.1),
}
OPTIONS = {"tp-qk-norm": KNOBS, "tp-knobs": KNOBS, "tp-sequence-qk-norm": KNOBS}


def optimizer_of(name: str) -> AbstractContextManager[None]:
    return nullcontext() if WAYS[name][4] == "torch" else megatron_optimizer()


def steps_of(
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


def train(
    name: str, ranks: Ranks, subtokenizers: SubtokenizerCache, stores: dict[str, TextStore]
) -> tuple[Model, list[float]]:
    """Train one way; the mean loss of each step over all slots."""
    _, slots, tied, dense, kind = WAYS[name]
    distributed = kind == "distributed" and ranks.replicas > 1
    model = Model(
        replace(SHAPES.get(name, SHAPE), tied=tied),
        subtokenizers.size,
        ranks,
        seed=4,
        chunk=16,
        distributed=distributed,
        execution=EXECUTION.get(name) if ranks.world > 1 else None,
        recompute=int(name in EXECUTION and ranks.world > 1),  # of two layers
        **OPTIONS.get(name, {}),
    )
    if name in EXECUTION and ranks.world > 1 and slots > 2:
        assert len(model.backbone.wrapped.bucket_groups) > 3  # some are exchanged before others
    losses = []
    for step in steps_of(ranks, slots, subtokenizers, stores):
        nll, _ = optimizer_step(model, step, 2e-3, dense=dense)
        total = torch.stack([one.mean() for one in nll]).sum()
        if ranks.replica_group is not None:
            dist.all_reduce(total, group=ranks.replica_group)
        losses.append(float(total) / slots)
    return model, losses


def evaluated(model: Model) -> list[float]:
    """Losses of a text that only the first replica has: the other runs no forward pass."""
    ids = np.arange(16, dtype=np.int32).reshape(2, 8)
    batch = microbatch(ids, ids, np.arange(16, dtype=np.int32), model.ranks)
    model.drain()
    return model.measure(batch if model.ranks.replica == 0 else None).tolist()


def main() -> None:
    tokenizer, texts, out = (Path(argument) for argument in sys.argv[1:4])
    subtokenizers = SubtokenizerCache.load(tokenizer)
    stores = {path.name.split("-")[0]: TextStore(path) for path in sorted(texts.iterdir())}
    small_buckets(5000)  # fewer parameters than a layer has
    found, measured = {}, {}
    # By shards: each change of their number leaves fifty files open, and many have 1,024 at most.
    for name, (shards, *_) in sorted(WAYS.items(), key=lambda way: way[1][0]):
        ranks = start_ranks(shards)
        with optimizer_of(name):
            model, found[name] = train(name, ranks, subtokenizers, stores)
            measured[name] = evaluated(model)
            save(out / name, model, STEPS)
    # And the other way round: what one process wrote, on two shards.
    ranks = start_ranks(2)
    model = Model(SHAPE, subtokenizers.size, ranks, seed=1)
    path = out / "single" / "step-00000003"
    checkpoint.load(path, orjson.loads((path / "state.json").read_bytes()), model)
    save(out / "again", model, 3)
    # And what was trained on shards, dealt to replicas.
    with megatron_optimizer():
        model = Model(SHAPE, subtokenizers.size, start_ranks(1), seed=1, distributed=True)
        path = out / "tp-megatron" / f"step-{STEPS:08d}"
        checkpoint.load(path, orjson.loads((path / "state.json").read_bytes()), model)
        save(out / "dealt", model, STEPS)
    if ranks.first:
        (out / "losses.json").write_bytes(orjson.dumps(found))
        (out / "evaluated.json").write_bytes(orjson.dumps(measured))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
