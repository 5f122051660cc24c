"""Rows sharded over 1, 2 and 4 processes: losses, bytes sent, memory per process.

    python -m benchmarks sharded_rows           # or: sharded_rows memory

* Losses of two and four processes against one, by way of training; batches are the same.
* Bytes that a rank sends for the rows of a step: counted, by the formula, and as acknowledged on
  its TCP connections (`TCP_INFO`) while nothing but rows is exchanged.
* Memory of the tables, and peak of a step above what the process held, against the plan.

Prints a JSON object a line.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import struct
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.common import emit, parser_of
from helpers.ranks import rank_variables, small_buckets

# Memory that is freed is given back at once, so that peaks are those of live tensors.
ALLOCATOR = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "0",
}


def status(field: str) -> int:
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


# name → (tensor-parallel size, tied, dense, offload delay or None, dtype)
WAYS: dict[str, tuple[int, bool, bool, int | None, str]] = {
    "dense": (1, False, True, None, "float32"),
    "sparse": (1, False, False, None, "float32"),
    "tied": (1, True, False, None, "float32"),
    "offload": (1, False, False, 0, "float32"),
    "offload, delay 1": (1, False, False, 1, "float32"),
    "tied, offload": (1, True, False, 1, "float32"),
    "TP 2": (2, False, False, None, "float32"),
    "TP 2, dense": (2, False, True, None, "float32"),
    "TP 2, tied": (2, True, False, None, "float32"),
    "TP 2, offload": (2, False, False, 1, "float32"),
    "TP 2, tied, offload": (2, True, False, 1, "float32"),
    "TP 2, sequence parallel": (2, False, False, None, "float32"),
    "overlap": (1, False, False, None, "float32"),
    "bfloat16": (1, False, False, None, "bfloat16"),
}
# The way of one process that a way of several is compared with, where names do not say it.
SAME = {"": "sparse", "offload": "offload, delay 1", "sequence parallel": "sparse"}
SLOTS, STEPS, LENGTH, SIZE = 4, 10, 32, 2000
WIDE = 256
_BYTES_ACKED = 120  # offset in struct tcp_info


def acknowledged() -> int:
    """Bytes that peers have acknowledged on all TCP connections of this process."""
    total = 0
    for path in list(Path("/proc/self/fd").iterdir()):
        try:
            if not path.is_socket():
                continue
            with socket.socket(fileno=os.dup(int(path.name))) as one:
                if one.family in (socket.AF_INET, socket.AF_INET6):
                    facts = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
                    total += struct.unpack_from("Q", facts, _BYTES_ACKED)[0]
        except OSError:
            continue
    return total


def batches(torch: Any, ranks: Any, step: int, length: int = LENGTH, size: int = SIZE) -> list[Any]:
    """This rank's microbatches of a step: random ids, by slot and step only."""
    from modtok_cli.training.rows.microbatch import MicroBatch

    found = []
    for slot in range(ranks.replica, SLOTS, ranks.replicas):
        generator = torch.Generator().manual_seed(1000 * step + slot)
        vocabulary = torch.randperm(size, generator=generator)[: size // 5].sort().values
        chosen = torch.randint(len(vocabulary), (2, length + 1), generator=generator)
        ids = vocabulary[chosen]
        weights = torch.full((2 * length,), 1 / (2 * length * SLOTS))
        mine = vocabulary[vocabulary % ranks.shards == ranks.shard]
        found.append(MicroBatch(ids[:, :-1], ids[:, 1:].flatten(), mine, weights))
    return found


def counted_bytes(exchange: Any, replica: int) -> list[int]:
    """The bytes of each message of a rank to others, from now on."""
    start, sizes = exchange._start, []

    def counting(values: Any, to: Any, *rest: Any) -> Any:
        there = list(to)
        others = len(values) - there[replica]
        sizes.append(others * values[:1].numel() * values.element_size())
        return start(values, there, *rest)

    exchange._start = counting
    return sizes


def train(name: str) -> dict[str, Any]:
    import torch

    from benchmarks.speed.scale import sent_bytes
    from helpers.microbatches import optimizer_step
    from modtok_cli.model.architecture.families.llama import llama
    from modtok_cli.training.distributed.ranks import gather_json, start_ranks, summed
    from modtok_cli.training.model.execution import Execution
    from modtok_cli.training.model.model import Model
    from modtok_cli.training.rows.host_tables import Offload
    from modtok_cli.training.rows.microbatch import active_ids

    small_buckets(10_000)  # fewer parameters than a layer has
    shards, tied, dense, delay, dtype = WAYS[name]
    ranks = start_ranks(shards)
    offload = None if delay is None else Offload(delay=delay)
    execution = Execution(
        overlap_grad_reduce=name == "overlap" and ranks.replicas > 1,
        sequence_parallel="sequence parallel" in name,
    )
    model = Model(
        replace(llama(2, 64, 8, 176), tied=tied),
        SIZE,
        ranks,
        seed=1,
        dtype=getattr(torch, dtype),
        offload=offload,
        execution=execution,
    )
    losses, expected, counts = [], 0, counted_bytes(model.exchange, ranks.replica)
    steps = [batches(torch, ranks, step) for step in range(1, STEPS + 1)]
    for step, batch in enumerate(steps):
        upcoming = steps[step + 1] if delay and step + 1 < STEPS else None
        nll, _ = optimizer_step(model, batch, 3e-3, dense=dense, upcoming=upcoming)
        total = summed(torch.stack([one.mean() for one in nll]).sum().double(), ranks.replica_group)
        losses.append(float(total) / SLOTS)
    sent = sum(counts)
    for batch in steps:
        plans = model.exchange.plan(active_ids(model.tables, batch, ranks))
        every = plans.values()
        needed = sum(len(plan.ids) - plan.needs[ranks.replica] for plan in every)
        asked = sum(len(plan.asked) - plan.asks[ranks.replica] for plan in every)
        of = len(plans), 64, model.dtype.itemsize, ranks.replicas
        expected += int(sent_bytes(needed, asked, *of))
    # Rows alone on the wire.
    placed = model.exchange.place(plans.values())
    own = [torch.zeros(len(one.own), 64, dtype=model.dtype) for one in placed]
    gathered = [model.exchange.gather(one, rows)() for one, rows in zip(placed, own, strict=True)]
    gather_json(ranks, 0)
    time.sleep(0.2)
    before, counted = acknowledged(), sum(counts)
    for one, rows, gradients in zip(placed, own, gathered, strict=True):
        model.exchange.gather(one, rows)()
        model.exchange.reduce(one, gradients.float())
    time.sleep(0.5)
    wire, counted = acknowledged() - before, sum(counts) - counted
    model.close()
    return {
        "losses": losses, "sent": sent // STEPS, "formula": expected // STEPS,
        "counted": counted, "wire": wire,
    }  # fmt: skip


def memory() -> dict[str, Any]:
    """Tables and a step of a wide model, in this process."""
    import torch

    from helpers.microbatches import optimizer_step
    from modtok_cli.model.architecture.families.llama import llama
    from modtok_cli.training.distributed.ranks import start_ranks
    from modtok_cli.training.model.model import Model
    from modtok_cli.training.resolve import resolve
    from modtok_cli.training.rows.microbatch import active_ids
    from modtok_cli.training.run_memory import StepRows, memory_parts
    from modtok_cli.training.settings import RunSettings

    ranks, size, length = start_ranks(), 120_000, 256
    shape = llama(2, WIDE, 64, 704)
    small = Model(shape, 64, ranks)  # libraries
    optimizer_step(small, batches(torch, ranks, 1, 16, 64), 1e-4)
    del small
    began = status("VmRSS")
    model = Model(shape, size, ranks)
    for table in model.tables.values():
        for part in (table.moment1, table.moment2):
            part.fill_(0)  # committed
    held = status("VmRSS") - began
    optimizer_step(model, batches(torch, ranks, 1, 16, 640), 1e-4)
    batch = batches(torch, ranks, 2, length, size)
    before = status("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")
    optimizer_step(model, batch, 1e-4)
    peak = status("VmHWM") - before
    options = RunSettings(model="tiny", seq_length=length, batch_size=2 * SLOTS, micro_batch=2)
    config = resolve(options, gpu=False).changed(shape=shape)
    plans = model.exchange.plan(active_ids(model.tables, batch, ranks)).values()
    rows = StepRows(
        size // 5,
        sum(len(plan.ids) for plan in plans) / 2,
        ranks.world * sum(len(plan.own) for plan in plans) / 2,
    )
    parts = memory_parts(config, size, rows, ranks.world)
    weights = parts["backbone"][1] * 4 // 16 * 2  # weights and gradient buffers; moments later
    step = sum(parts[name][1] for name in ("active rows", "activations", "working memory"))
    return {
        "held": held, "planned_held": parts["tables"][1] + weights, "peak": peak,
        "planned_peak": step,
    }  # fmt: skip


def measure(part: str) -> dict[str, Any]:
    """What one rank finds."""
    import torch

    torch.set_num_threads(1)
    world = int(os.environ["WORLD_SIZE"])
    found: dict[str, Any] = {"memory": memory()}
    for name, (shards, *_) in WAYS.items():
        if world % shards == 0 and part != "memory":
            found[name] = train(name)
    return found


def launch(world: int, part: str) -> list[dict[str, Any]]:
    """What every rank found."""
    command = [sys.executable, "-m", "benchmarks", "sharded_rows", part, "--result"]
    with TemporaryDirectory() as out:
        paths = [Path(out) / str(rank) for rank in range(world)]
        ranks = [
            subprocess.Popen([*command, path], env=variables | ALLOCATOR)
            for path, variables in zip(paths, rank_variables(world), strict=True)
        ]
        statuses = [rank.wait() for rank in ranks]
        if any(statuses):
            raise SystemExit(1)
        return [json.loads(path.read_bytes()) for path in paths]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("part", nargs="?", choices=("all", "memory"), default="all")
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)  # of a rank
    options = parser.parse_args()
    if options.result:
        options.result.write_text(json.dumps(measure(options.part)))
        return
    single: dict[str, list[float]] = {}
    for world in (1, 2, 4):
        found = launch(world, options.part)
        kept = [one.pop("memory") for one in found]
        for name, first in found[0].items():
            # One process cannot be two shards: compared with its way without them.
            base = name.removeprefix("TP 2").removeprefix(", ")
            base = SAME.get(base, base) if "TP" in name else base
            if world == 1:
                single[name] = first["losses"]
            difference = max(abs(a - b) for a, b in zip(first["losses"], single[base], strict=True))
            emit(
                {
                    "what": "sharded rows",
                    "way": name,
                    "processes": world,
                    "loss_difference": float(f"{difference:.2g}"),
                    "sent_bytes": [one[name]["sent"] for one in found],
                    "formula_bytes": [one[name]["formula"] for one in found],
                    "rows_counted": [one[name]["counted"] for one in found],
                    "rows_on_the_wire": [one[name]["wire"] for one in found],
                }
            )
        emit(
            {
                "what": "sharded rows, memory",
                "processes": world,
                "held_mib": [round(one["held"] / 2**20, 1) for one in kept],
                "planned_held_mib": [round(one["planned_held"] / 2**20, 1) for one in kept],
                "peak_mib": [round(one["peak"] / 2**20, 1) for one in kept],
                "planned_peak_mib": [round(one["planned_peak"] / 2**20, 1) for one in kept],
            }
        )
