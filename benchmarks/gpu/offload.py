"""Embedding rows in host memory: update pass, transfers, hidden time.

    python -m benchmarks offload pass        # the fused pass against torch and memory bandwidth
    python -m benchmarks offload link        # on a GPU: bytes per second from and to pinned memory
    python -m benchmarks offload trip        # gather, transfers, update alone, K = 1 and 6
    python -m benchmarks offload step        # training steps resident, offloaded, both delays
    python -m benchmarks offload languages   # tables of 21, 100 and 250 languages
    python -m benchmarks offload trace       # on a GPU: what a profiler says is hidden

The widths are those of the paper's 1B, 2.5B and 7B; rows as there: 24,000 of the batch's
language on the input side, 24,000 (K = 1) or 110,000 (K = 6) on the output side, all times
`--scale`. Parts without training take turns, so that the machine's moods hit all alike; steps of a
model follow each other, as in training: an update of delay 1 runs beside the next step, which in
turns would be another model's. Medians and minima are given, and the load of the machine. A JSON
line each.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.common import describe, emit, parser_of
from benchmarks.gpu.training_step import backbone_of, clock, consecutive, micro_of, take_steps
from modtok_cli.model.architecture.families.llama import llama
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.model.architecture.sizes import SIZES
from modtok_cli.text.parallel import cores
from modtok_cli.training.distributed.ranks import pick_device, start_ranks, stop_ranks
from modtok_cli.training.model.execution import Execution
from modtok_cli.training.model.model import Model
from modtok_cli.training.rows.copies import copies_for
from modtok_cli.training.rows.host_tables import Offload, host_zeros
from modtok_cli.training.rows.microbatch import MicroBatch, active_ids
from modtok_cli.training.rows.offload import OffloadedRows
from modtok_cli.training.rows.table import AdamW, RowTable

WIDTHS = {"1b": 2048, "2.5b": 3072, "7b": 4096}
T, INPUT_ROWS, OUTPUT_ROWS = 366_208, 24_000, {1: 24_000, 6: 110_000}
ADAMW = AdamW()
Timed = dict[str, list[float]]


def turns(variants: dict[str, Callable[[], Any]], count: int, device: torch.device) -> Timed:
    """Seconds of each variant, `count` times in turn, after one that does not count.

    Under "NAME, processor" also the seconds of all processors, which a loaded machine
    stretches less than the clock's.
    """
    seconds: Timed = {name: [] for name in variants}
    seconds.update({f"{name}, processor": [] for name in variants})
    for _ in range(count + 1):
        for name, work in variants.items():
            spent = time.process_time()
            with clock(seconds[name], device):
                work()
            seconds[f"{name}, processor"].append(time.process_time() - spent)
    return {name: found[1:] for name, found in seconds.items()}


@contextmanager
def made_beside(first: Model | None) -> Iterator[None]:
    """Models made inside share the backbone of `first`; all weights of their rows are zero."""
    with backbone_of(first):
        RowTable.initialize = lambda *args, **kwargs: None  # type: ignore[assignment,method-assign]
        yield


def begin_weights(model: Model, batch: list[MicroBatch]) -> None:
    """Normal numbers for the rows in use: those of all T would have to be in memory."""
    for name, ids in active_ids(model.tables, batch, model.ranks).items():
        table = model.tables[name]
        drawn = torch.randn(len(ids), table.width, generator=torch.Generator().manual_seed(1))
        table.weight[ids] = 0.02 * drawn.to(table.weight.device)


def say(**row: Any) -> None:
    device = pick_device()
    where = torch.cuda.get_device_name() if device.type == "cuda" else describe()
    load = round(os.getloadavg()[0], 1)
    emit({**row, "load": load, "machine": where})


def figures(seconds: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(seconds), 4), "least": round(min(seconds), 4)}


def host_table(size: int, width: int, moments: torch.dtype = torch.float32) -> RowTable:
    """A table whose memory is taken as it is touched: of T, only active rows are ever there."""
    zeros = partial(host_zeros, start_ranks(), None)
    return RowTable(size, width, moments=moments, zeros=zeros, threads=cores())


def spread(size: int, count: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randperm(size, generator=generator)[:count].sort().values


def fused_pass(options: argparse.Namespace) -> None:
    device = torch.device("cpu")
    pool = ThreadPoolExecutor(cores())
    torch.set_num_threads(cores())
    for model in options.models:
        width = WIDTHS[model]
        count = int(OUTPUT_ROWS[6] * options.scale)
        ids = spread(T, count, 1)
        gradients = torch.randn(count, width) / 100
        table = host_table(T, width)
        half = host_table(T, width, torch.bfloat16)
        source = np.ones(count * width, dtype=np.float32)
        target = np.zeros_like(source)
        out = torch.empty(count, width)

        def copy(target: Any = target, source: Any = source) -> None:
            length = len(source)

            def part(i: int) -> None:
                cut = slice(length * i // cores(), length * (i + 1) // cores())
                np.copyto(target[cut], source[cut])

            list(pool.map(part, range(cores())))

        def by_torch(table: RowTable = table, ids: Any = ids, gradients: Any = gradients) -> None:
            state = [x[ids] for x in (table.weight, table.moment1, table.moment2)]
            torch._fused_adamw_(
                [state[0]], [gradients], [state[1]], [state[2]], [], [torch.tensor(1.0)],
                lr=1e-4, beta1=0.9, beta2=0.95, weight_decay=0.1, eps=1e-8,
                amsgrad=False, maximize=False,
            )  # fmt: skip
            for x, new in zip((table.weight, table.moment1, table.moment2), state, strict=True):
                x[ids] = new

        def update(table: RowTable, ids: Any = ids, gradients: Any = gradients) -> None:
            table.update(ids, gradients, 1e-4, ADAMW)

        def gather(table: RowTable = table, ids: Any = ids, out: Any = out) -> None:
            table.gather_into(ids, out)

        moved = {
            "copy": 8,
            "fused": 28,
            "fused, bfloat16 moments": 20,
            "gather": 8,
            "torch": 28,
        }
        found = turns(
            {
                "copy": copy,
                "fused": lambda table=table, update=update: update(table),
                "fused, bfloat16 moments": lambda half=half, update=update: update(half),
                "gather": gather,
                "torch": by_torch,
            },
            options.turns,
            device,
        )
        numbers = count * width
        rates = {name: moved[name] * numbers / min(found[name]) / 1e9 for name in moved}
        paired = [t / f for t, f in zip(found["torch"], found["fused"], strict=True)]
        for name in moved:
            say(
                what="pass",
                variant=name,
                width=width,
                model=model,
                rows=count,
                seconds=figures(found[name]),
                gigabytes_per_second=round(rates[name], 2),
                of_copy_bandwidth=round(rates[name] / rates["copy"], 2),
                torch_against_fused=round(statistics.median(paired), 1),
                threads=cores(),
            )
        del table, half, gradients


def microbatch(
    size: int, k: int, scale: float, device: torch.device, shape: tuple[int, int] | None = None
) -> MicroBatch:
    """A batch of one language under K of them; of `shape`, or with every input row once."""
    inputs = spread(size, int(INPUT_ROWS * scale), 2)
    others = spread(size, int((OUTPUT_ROWS[k] - INPUT_ROWS) * scale), 3)
    vocabulary = torch.unique(torch.cat([others, inputs]))
    tokens = inputs[None]
    if shape is not None:
        generator = torch.Generator().manual_seed(4)
        tokens = inputs[torch.randint(len(inputs), shape, generator=generator)]
    return MicroBatch(
        tokens.to(device),
        tokens.flatten().to(device),
        vocabulary.to(device),
        torch.full((tokens.numel(),), 1 / tokens.numel(), device=device),
        host=(tokens.numpy().astype(np.int32), vocabulary.numpy().astype(np.int32)),
    )


def link(options: argparse.Namespace) -> None:
    """What copies of rows can reach at best: a GiB (times `--scale`) of pinned memory."""
    device = pick_device()
    if device.type != "cuda":
        print("offload link: no GPU here", file=sys.stderr)
        raise SystemExit(1)
    host = torch.ones(int(2**30 * options.scale), dtype=torch.uint8, pin_memory=True)
    there = host.to(device)
    copies = {"up": lambda: there.copy_(host), "down": lambda: host.copy_(there)}
    for way, seconds in turns(copies, options.turns, device).items():
        if way in copies:
            say(what="link", way=way, gigabytes_per_second=round(len(host) / min(seconds) / 1e9, 2))


def round_trip(options: argparse.Namespace) -> None:
    """Fetch (gather and way up) and update (way down, AdamW, write-back), nothing beside."""
    device = pick_device()
    dtype = torch.bfloat16  # as on GPUs
    for model in options.models:
        width = WIDTHS[model]
        for k in OUTPUT_ROWS:
            tables = {"input": host_table(T, width), "output": host_table(T, width)}
            batch = [microbatch(T, k, options.scale, device)]
            moved = OffloadedRows(tables, dtype, ADAMW, copies_for(device, print), delay=0)
            wanted = active_ids(tables, batch, start_ranks())
            gradients = {
                name: (wanted[name], torch.randn(one.shape, device=device).to(dtype) / 100)
                for name, one in moved.begin(wanted).items()
            }
            rows = sum(len(ids) for ids in wanted.values())
            seconds: Timed = {"trip": [], "fetch": [], "update": []}
            for _ in range(options.turns + 1):
                before = (moved.seconds.fetch, moved.seconds.update)
                with clock(seconds["trip"], device):
                    moved.begin(wanted)
                    moved.proceed(None)
                    moved.update(gradients, 1e-4)
                    moved.drain()
                seconds["fetch"].append(moved.seconds.fetch - before[0])
                seconds["update"].append(moved.seconds.update - before[1])
            seconds = {name: found[1:] for name, found in seconds.items()}
            say(
                what="trip",
                model=model,
                width=width,
                K=k,
                rows=rows,
                seconds=figures(seconds["trip"]),
                fetch=figures(seconds["fetch"]),
                update=figures(seconds["update"]),
                scaled_to_all_rows=round(min(seconds["trip"]) / options.scale, 3),
                transferred_bytes=4 * rows * width,
                threads=cores() if device.type == "cuda" else torch.get_num_threads(),
            )
            moved.close()


def shape_of(model: str, options: argparse.Namespace) -> Shape:
    width = WIDTHS[model]
    layers = options.layers or SIZES[model].layers
    return llama(layers, width, 128, width * 11 // 4)


def execution_of(device: torch.device) -> Execution | None:
    return Execution(fused=True) if device.type == "cuda" else None


def step(options: argparse.Namespace) -> None:
    """A training step, rows resident and in host memory."""
    device, ranks = pick_device(), start_ranks()
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    size = int(T * options.scale)
    for model in options.models:
        shape = shape_of(model, options)
        models: dict[str, Model] = {}
        for name, offload in {
            "resident": None,
            "offload, delay 0": Offload(delay=0),
            "offload, delay 1": Offload(delay=1),
        }.items():
            with made_beside(models.get("resident")):
                models[name] = Model(
                    shape, size, ranks, dtype=dtype, offload=offload, execution=execution_of(device)
                )
        for k in OUTPUT_ROWS:
            sizes = (options.rows, options.length)
            batch = [microbatch(size, k, options.scale, device, sizes)] * options.microbatches
            work = {}
            for name, one in models.items():
                begin_weights(one, batch)
                work[name] = lambda one=one, batch=batch: take_steps(one, batch)
            before = {name: one.host_seconds for name, one in models.items()}
            found = consecutive(work, options.turns, device)
            resident = statistics.mean(found["resident"])
            for name, one in models.items():
                host = {
                    part: round((now - before[name][part]) / (options.turns + 3), 4)
                    for part, now in one.host_seconds.items()
                }
                say(
                    what="step",
                    variant=name,
                    model=model,
                    width=shape.hidden_size,
                    layers=shape.layers,
                    K=k,
                    rows_of_T=size,
                    output_rows=len(batch[0].vocabulary),
                    tokens=options.microbatches * options.rows * options.length,
                    seconds=figures(found[name]),
                    processor=figures(found[f"{name}, processor"]),
                    against_resident=round(statistics.mean(found[name]) / resident, 3),
                    host=host,
                )
                one.drain()
        for one in models.values():
            one.close()


def languages(options: argparse.Namespace) -> None:
    """Step time against the number of languages of T; rows never active are never touched."""
    device, ranks = pick_device(), start_ranks()
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    shape = llama(options.layers, options.width, 64, options.width * 11 // 4)
    each = int(16_000 * options.scale)
    models: dict[int, Model] = {}
    for count in (21, 100, 250):
        with made_beside(models.get(21)):
            models[count] = Model(shape, count * each, ranks, dtype=dtype, offload=Offload())
    work = {}
    for count, one in models.items():
        batch = [micro_of(count * each, 3 * each, options.rows, options.length, device)]
        begin_weights(one, batch)
        work[str(count)] = lambda one=one, batch=batch: take_steps(one, batch)
    found = consecutive(work, options.turns, device)
    first = statistics.mean(found["21"])
    for count, one in models.items():
        say(
            what="languages",
            languages=count,
            rows_of_T=count * each,
            table_bytes=2 * count * each * (options.width * 12 + 4),
            active_rows=3 * each,
            width=options.width,
            tokens=options.rows * options.length,
            seconds=figures(found[str(count)]),
            processor=figures(found[f"{count}, processor"]),
            against_21=round(statistics.mean(found[str(count)]) / first, 3),
            device_bytes=torch.cuda.max_memory_allocated() if device.type == "cuda" else None,
        )
        one.close()


def trace(options: argparse.Namespace) -> None:
    """Share of the copies' time during which the device computes, from a profiler's trace."""
    from torch.profiler import ProfilerActivity, profile

    device, ranks = pick_device(), start_ranks()
    if device.type != "cuda":
        print("offload trace: no GPU here", file=sys.stderr)
        raise SystemExit(1)
    for model in options.models:
        size = int(T * options.scale)
        with made_beside(None):
            shape = shape_of(model, options)
            one = Model(shape, size, ranks, dtype=torch.bfloat16, offload=Offload())
        sizes = (options.rows, options.length)
        batch = [microbatch(size, 6, options.scale, device, sizes)] * options.microbatches
        begin_weights(one, batch)
        for _ in range(3):
            take_steps(one, batch)
        torch.cuda.synchronize()
        before = one.host_seconds
        with profile(activities=[ProfilerActivity.CUDA]) as seen:
            for _ in range(options.turns):
                take_steps(one, batch)
            torch.cuda.synchronize()
        spent = {k: round(v - before[k], 4) for k, v in one.host_seconds.items()}
        large = 1 << 20  # copies of rows; ids and scalars are smaller
        copies, compute = [], []
        for event in seen.profiler.kineto_results.events():  # type: ignore[union-attr]
            span = (event.start_ns(), event.start_ns() + event.duration_ns())
            if "Memcpy HtoD" in event.name() or "Memcpy DtoH" in event.name():
                if event.nbytes() > large:
                    copies.append(span)
            elif str(event.device_type()).endswith("CUDA"):
                compute.append(span)
        total = sum(stop - start for start, stop in copies)
        busy = spent["fetch"] + spent["update"]
        say(
            what="trace",
            model=model,
            copies=len(copies),
            copy_seconds=round(total / 1e9, 4),
            copies_hidden=round(covered(copies, compute) / total, 3) if total else None,
            host=spent,
            host_work_hidden=round(1 - spent["waited"] / busy, 3) if busy else None,
            steps=options.turns,
        )
        one.close()


def covered(spans: list[tuple[int, int]], by: list[tuple[int, int]]) -> int:
    """How much of `spans` lies within the union of `by`."""
    union: list[list[int]] = []
    for start, stop in sorted(by):
        if union and start <= union[-1][1]:
            union[-1][1] = max(union[-1][1], stop)
        else:
            union.append([start, stop])
    return sum(max(0, min(stop, b) - max(start, a)) for start, stop in spans for a, b in union)


PARTS = {
    "pass": fused_pass,
    "link": link,
    "trip": round_trip,
    "step": step,
    "languages": languages,
    "trace": trace,
}


def main() -> None:
    RowTable.touch = lambda table: None  # type: ignore[method-assign]  # few rows are used
    parser = parser_of(__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--scale", type=float, default=1.0, help="of the numbers of rows")
    parser.add_argument("--turns", type=int, default=12)
    parser.add_argument("--models", type=lambda text: text.split(","), default=list(WIDTHS))
    parser.add_argument("--layers", type=int, default=0, help="0: as many as the model has")
    parser.add_argument("--microbatches", type=int, default=1, help="microbatches a step")
    parser.add_argument("--width", type=int, default=512, help="languages only")
    parser.add_argument("--rows", type=int, default=1, help="sequences in a batch")
    parser.add_argument("--length", type=int, default=128)
    options = parser.parse_args()
    PARTS[options.part](options)
    stop_ranks()
