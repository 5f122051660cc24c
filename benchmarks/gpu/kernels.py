"""Kernels of a training step on a GPU, and what they decide: padding, chunks, attention.

    python -m benchmarks kernels gemm        # matrix products of the head by its number of rows
    python -m benchmarks kernels loss        # the loss by rows, chunk and compilation
    python -m benchmarks kernels attention   # flash and cuDNN: time, error, whether results repeat
    python -m benchmarks kernels profile     # kernels of a step by their time, share of idle time
    python -m benchmarks kernels gemm --tiny # tiny sizes, also on a CPU

A JSON line for each measurement.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import profiler
from torch.nn.attention import SDPBackend, sdpa_kernel

from benchmarks.common import emit, parser_of
from benchmarks.gpu.training_step import (
    ROWS,
    backbone_of,
    clock,
    consecutive,
    micro_of,
    take_steps,
)
from modtok_cli.training.distributed.ranks import pick_device, start_ranks, stop_ranks
from modtok_cli.training.model.loss import sliced_cross_entropy
from modtok_cli.training.model.model import Model
from modtok_cli.training.model.products import add_product
from modtok_cli.training.resolve import resolve
from modtok_cli.training.settings import RunSettings

DEVICE = pick_device()
GPU = DEVICE.type == "cuda"
BF16 = torch.bfloat16
# Odd sizes as unions have them, and multiples of 2 to 64.
WIDTHS = (24_000, 65_001, 65_002, 65_004, 65_008, 65_024, 104_323, 104_448)


def seconds(work: Callable[[], Any], count: int = 10) -> float:
    """Median of `count` calls after three."""
    found: list[float] = []
    for _ in range(count + 3):
        with clock(found, DEVICE):
            work()
    return statistics.median(found[3:])


def gemm(tiny: bool) -> None:
    chunk = 64 if tiny else 2048
    for width in [64] if tiny else [1536, 2048, 3072]:
        hidden = torch.randn(chunk, width, device=DEVICE, dtype=BF16)
        for count in (100, 101) if tiny else WIDTHS:
            rows = torch.randn(count, width, device=DEVICE, dtype=BF16)
            p, total = hidden @ rows.t(), torch.zeros(count, width, device=DEVICE)

            def added(p: Any = p, total: Any = total, hidden: Any = hidden) -> None:
                total.add_(p.t() @ hidden)

            work = {
                "logits": lambda hidden=hidden, rows=rows: hidden @ rows.t(),
                "d_hidden": lambda p=p, rows=rows: p @ rows,
                "d_rows": lambda p=p, hidden=hidden: p.t() @ hidden,
                "d_rows +=": added,
            }
            work["d_rows, in float32"] = partial(add_product, total, p.t(), hidden)
            flops = 2 * chunk * width * count
            rates = {name: round(flops / seconds(one) / 1e12, 3) for name, one in work.items()}
            emit({"what": "gemm", "width": width, "rows": count, "teraflops": rates})


def loss(tiny: bool) -> None:
    tokens, width = (256, 64) if tiny else (8192, 2048)
    for count in (100, 101) if tiny else WIDTHS:
        rows = torch.randn(count, width, device=DEVICE, dtype=BF16).mul_(0.02).requires_grad_()
        hidden = torch.randn(tokens, width, device=DEVICE, dtype=BF16).requires_grad_()
        columns = torch.randint(count, (tokens,), device=DEVICE)
        weights = torch.full((tokens,), 1 / tokens, device=DEVICE)
        for fused, chunk, multiple in (
            (fused, chunk, multiple)
            for fused in ((False, True) if GPU else (False,))
            for chunk in (2048, 4096, 8192)
            for multiple in (1, 64)
        ):

            def work(
                hidden: Any = hidden, rows: Any = rows, columns: Any = columns,
                weights: Any = weights, fused: bool = fused, chunk: int = chunk,
                multiple: int = multiple,
            ) -> None:  # fmt: skip
                found, _ = sliced_cross_entropy(
                    hidden, rows, columns, weights, chunk=chunk, fused=fused, multiple=multiple
                )
                found.backward()  # type: ignore[no-untyped-call]
                hidden.grad = rows.grad = None

            taken = seconds(work, 5)
            rate = round(6 * tokens * width * count / taken / 1e12, 3)
            how = {"rows": count, "fused": fused, "chunk": chunk, "multiple": multiple}
            emit({"what": "loss", **how, "seconds": round(taken, 5), "teraflops": rate})


def attention(tiny: bool) -> None:
    count, length = (1, 64) if tiny else (2, 4096)
    kernels = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}
    for heads, groups in ((12, 6), (16, 8), (24, 12)):
        q, k, v = (
            torch.randn(length, count, n, 128, device=DEVICE, dtype=BF16)
            .permute(1, 2, 0, 3)
            .requires_grad_()
            for n in (heads, groups, groups)
        )
        above = torch.randn(length, count, heads, 128, device=DEVICE, dtype=BF16)
        with torch.no_grad():
            exact = F.scaled_dot_product_attention(
                *(x[:1, :, :512].float() for x in (q, k, v)), is_causal=True, enable_gqa=True
            )
        for name, kernel in kernels.items() if GPU else {"math": SDPBackend.MATH}.items():
            with sdpa_kernel([kernel]):

                def forward(q: Any = q, k: Any = k, v: Any = v) -> torch.Tensor:
                    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

                def both(
                    q: Any = q, k: Any = k, v: Any = v, above: Any = above, forward: Any = forward
                ) -> Any:
                    return torch.autograd.grad(forward(), (q, k, v), above.permute(1, 2, 0, 3))

                first, whole = seconds(forward), seconds(both)
                repeats = all(map(torch.equal, both(), both()))
                error = (forward()[:1, :, :512].float() - exact).abs().max().item()
            times = {"forward": round(first, 6), "backward": round(whole - first, 6)}
            emit({"what": "attention", "heads": heads, "kernel": name, "seconds": times,
                  "error": error, "repeats": repeats})  # fmt: skip


def profile(tiny: bool) -> None:
    for name in ("0.5b", "1b"):
        config = resolve(RunSettings(model="tiny" if tiny else name, batch_size=8), gpu=GPU)
        size, rows = (850, 160) if tiny else (ROWS["full"], ROWS["sub:2"])
        with backbone_of(None):
            model = Model(
                config.shape, size, start_ranks(), dtype=getattr(torch, config.precision.dtype),
                execution=config.switches(1) if GPU else None,
            )  # fmt: skip
        batch = [micro_of(size, rows, 2, 16 if tiny else 4096, DEVICE)] * 4
        work = partial(take_steps, model, batch)
        step = consecutive({name: work}, 1 if tiny else 5, DEVICE, again=False)[name][0]
        busy, by = _kernels(work, 4)
        emit({"what": "profile", "model": config.architecture.model, "output_rows": rows,
              "step_seconds": round(step, 4), "busy": busy, "milliseconds": by})  # fmt: skip


def _kernels(work: Callable[[], Any], count: int) -> tuple[float | None, dict[str, float]]:
    """Share of the time in which a kernel ran, and milliseconds a call by kernel, the longest."""
    with profiler.profile(
        activities=[profiler.ProfilerActivity.CUDA if GPU else profiler.ProfilerActivity.CPU]
    ) as seen:
        for _ in range(count):
            work()
        if GPU:
            torch.cuda.synchronize()
    by: Counter[str] = Counter()
    spans = []
    for event in seen.profiler.kineto_results.events():  # type: ignore[union-attr]
        if not GPU or str(event.device_type()).endswith("CUDA"):
            by[event.name()[:70]] += event.duration_ns() / 1e6 / count
            spans.append((event.start_ns(), event.start_ns() + event.duration_ns()))
    if not spans:  # of a stub
        return None, {}
    busy = last = 0
    for start, stop in sorted(spans):
        busy, last = busy + max(0, stop - max(start, last)), max(last, stop)
    whole = last - min(start for start, _ in spans)
    return round(busy / whole, 3), {key: round(value, 3) for key, value in by.most_common(35)}


PARTS = {"gemm": gemm, "loss": loss, "attention": attention, "profile": profile}


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    PARTS[options.part](options.tiny)
    stop_ranks()
