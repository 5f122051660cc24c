"""A training step against the size of T and the masked full softmax.

    python -m benchmarks training_step                     # a CPU's sizes, a minute
    python -m benchmarks training_step --model 0.5b --rows 2 --length 2048   # on a GPU

Synthetic vocabularies: 21, 100 and 250 languages bring 16,000 rows each to T (times
`--scale`, 0.1 by default), and a batch predicts over the rows of three languages. Steps of
the different sizes take turns, so that the machine's moods hit all alike. A JSON line each.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.common import describe, emit, parser_of
from benchmarks.gpu.masked_model import MaskedModel
from helpers.microbatches import optimizer_step
from modtok_cli.model.architecture.arithmetic import step_flops
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.model.architecture.sizes import SIZES
from modtok_cli.training.distributed.ranks import pick_device, start_ranks, stop_ranks
from modtok_cli.training.metrics import peak_flops
from modtok_cli.training.model import megatron
from modtok_cli.training.model import model as model_module
from modtok_cli.training.model.model import MicroBatch, Model
from modtok_cli.training.rows.table import RowTable

# Rows of V_S under each sampling: T of 21 languages by sequential BPE, k = 24,000, and one of its
# unions of three (benchmarks/results/union-rows-2026-11-26.jsonl). Few unions are multiples of 8.
ROWS = {"none": 24_000, "sub:2": 62_863, "full": 340_176}
LANGUAGES = (21, 100, 250)
ROWS_A_LANGUAGE = 16_000
ACTIVE_LANGUAGES = 3


class Fresh(TorchDispatchMode):
    """Bytes of all tensors that a step makes, views and in-place results left out."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        old = {x.data_ptr() for x in tree_leaves((args, kwargs)) if isinstance(x, torch.Tensor)}
        for leaf in tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and leaf.data_ptr() not in old:
                self.bytes += leaf.numel() * leaf.element_size()
        return result


def micro_of(size: int, active: int, rows: int, length: int, device: torch.device) -> MicroBatch:
    """Random tokens over `active` rows, spread evenly over T."""
    generator = torch.Generator().manual_seed(1)
    vocabulary = torch.linspace(0, size - 1, active).long().unique()
    drawn = torch.randint(len(vocabulary), (rows, length + 1), generator=generator)
    return MicroBatch(
        vocabulary[drawn[:, :-1]].to(device),
        vocabulary[drawn[:, 1:]].flatten().to(device),
        vocabulary.to(device),
        torch.full((rows * length,), 1 / (rows * length), device=device),
        host=(
            vocabulary[drawn[:, :-1]].numpy().astype("int32"),
            vocabulary.numpy().astype("int32"),
        ),
    )


@contextmanager
def clock(seconds: list[float], device: torch.device) -> Iterator[None]:
    if device.type == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    yield
    if device.type == "cuda":
        torch.cuda.synchronize()
    seconds.append(time.perf_counter() - started)


@contextmanager
def backbone_of(first: Any) -> Iterator[None]:
    """Models made inside take the backbone of `first`, if there is one; tables are random.

    Only tables are compared: one backbone is enough, and it is the slow part to make.
    """
    made, optimizer = megatron.build_backbone, model_module.backbone_optimizer
    initialize = RowTable.initialize

    def fill(table: RowTable, seed: int, std: float = 0.02) -> None:
        table.weight.normal_(0.0, std)  # on the device: which numbers they are does not matter

    RowTable.initialize = fill  # type: ignore[method-assign]
    if first is not None:
        megatron.build_backbone = lambda *args, **kwargs: first.backbone  # type: ignore[assignment]
        model_module.backbone_optimizer = lambda *args, **kwargs: first.optimizer  # type: ignore[assignment]
    try:
        yield
    finally:
        RowTable.initialize = initialize  # type: ignore[method-assign]
        megatron.build_backbone, model_module.backbone_optimizer = made, optimizer


def take_steps(model: Model, microbatches: list[MicroBatch]) -> None:
    """A step as `pretrain` takes it: the next one is planned while the device computes."""
    upcoming = microbatches if model.offloaded is not None else None
    optimizer_step(model, microbatches, 1e-4, upcoming=upcoming)
    model.plan_ahead(microbatches)


def consecutive(
    variants: dict[str, Callable[[], Any]], count: int, device: torch.device, *, again: bool = True
) -> dict[str, list[float]]:
    """Mean seconds of `count` steps of each variant, after three; of the first twice, if `again`.

    The device is waited for before and after all of them only, as in training. Under "NAME,
    processor" the seconds of all processors.
    """
    seconds: dict[str, list[float]] = {}
    for name in [*variants, *([next(iter(variants))] if again else [])]:
        for _ in range(3):
            variants[name]()
        spent, began = time.process_time(), [0.0]
        with clock(began, device):
            for _ in range(count):
                variants[name]()
        seconds.setdefault(name, []).append(began[-1] / count)
        processor = (time.process_time() - spent) / count
        seconds.setdefault(f"{name}, processor", []).append(processor)
    return seconds


def utilization(
    shape: Shape, length: int, sizes: list[tuple[int, float]], seconds: float, device: torch.device
) -> dict[str, float | None]:
    """Share of a GPU's peak: "mfu", and with causal attention counted whole, as many others do."""
    most = peak_flops(device, torch.bfloat16)
    flops = step_flops(shape, length, sizes)
    attention = 6 * shape.layers * length * shape.heads * shape.head_width
    whole = flops + attention * sum(tokens for tokens, _ in sizes)
    both = {"mfu": flops, "mfu_whole_attention": whole}
    return {name: round(n / seconds / most, 4) if most else None for name, n in both.items()}


def take_step(model: Any, microbatches: list[MicroBatch]) -> None:
    if isinstance(model, MaskedModel):
        model.step(microbatches, 1e-4)
    else:
        optimizer_step(model, microbatches, 1e-4)


def peak_of_a_step(model: Any, microbatches: list[MicroBatch], device: torch.device) -> int | None:
    """What a step takes at its highest, over what lies on the GPU before it."""
    if device.type != "cuda":
        return None
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    take_step(model, microbatches)
    return torch.cuda.max_memory_allocated() - before


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--model", default="tiny", choices=SIZES)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rows", type=int, default=4)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--no-mask", action="store_true")
    options = parser.parse_args()
    device = pick_device()
    ranks = start_ranks()
    shape = SIZES[options.model]
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    each = int(ROWS_A_LANGUAGE * options.scale)
    active = ACTIVE_LANGUAGES * each
    models: dict[str, Any] = {}
    for count in LANGUAGES:
        with backbone_of(next(iter(models.values()), None)):
            models[f"sliced, {count} languages"] = Model(shape, count * each, ranks, dtype=dtype)
    if not options.no_mask:
        with backbone_of(first := next(iter(models.values()))):
            masked = MaskedModel(shape, LANGUAGES[0] * each, device=device, dtype=dtype)
        masked.optimizer = first.optimizer
        models[f"masked, {LANGUAGES[0]} languages"] = masked
    microbatches = {}
    for name in models:
        size = int(name.split()[1]) * each
        microbatches[name] = [micro_of(size, active, options.rows, options.length, device)]
    times: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(options.steps + 2):
        for name, model in models.items():
            with clock(times[name] if turn >= 2 else [], device):
                take_step(model, microbatches[name])
    first = statistics.median(times[next(iter(models))])
    for name, model in models.items():
        with Fresh() as fresh:
            take_step(model, microbatches[name])
        peak = peak_of_a_step(model, microbatches[name], device)
        seconds = statistics.median(times[name])
        row = {
            "what": name,
            "model": options.model,
            "rows_of_T": int(name.split()[1]) * each,
            "active_rows": len(microbatches[name][0].vocabulary),
            "tokens": options.rows * options.length,
            "step_seconds": round(seconds, 5),
            "least_seconds": round(min(times[name]), 5),
            "against_first": round(seconds / first, 3),
            "made_in_a_step_bytes": fresh.bytes,
            "peak_over_resident_bytes": peak,
            "machine": describe() if device.type == "cpu" else torch.cuda.get_device_name(),
        }
        emit(row)
    stop_ranks()
