"""Training steps beside those of a plain decoder of the same shape in compiled torch.

    python -m benchmarks peer --model 0.5b    # on a GPU
    python -m benchmarks peer --tiny          # also on a CPU

The plain decoder has float32 weights under autocast, torch's attention, ordinary cross-entropy over
its whole vocabulary and fused AdamW; it is compiled as a whole. It runs with a vocabulary of |V_S|
and with one of |T|, modtok with V_S of T. A JSON line each.
"""

from __future__ import annotations

import argparse
import gc
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.common import emit, parser_of
from benchmarks.gpu.training_step import (
    ROWS,
    backbone_of,
    consecutive,
    micro_of,
    take_steps,
    utilization,
)
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.training.distributed.ranks import pick_device, start_ranks, stop_ranks
from modtok_cli.training.model.model import Model
from modtok_cli.training.resolve import resolve
from modtok_cli.training.settings import RunSettings

MICROBATCHES = 4


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads, self.groups, self.width = shape.heads, shape.kv_heads, shape.head_width
        inside = (shape.heads + 2 * shape.kv_heads) * shape.head_width
        self.norms = nn.ModuleList([nn.RMSNorm(shape.hidden_size) for _ in range(2)])
        self.qkv = nn.Linear(shape.hidden_size, inside, bias=False)
        self.out = nn.Linear(shape.heads * shape.head_width, shape.hidden_size, bias=False)
        self.up = nn.Linear(shape.hidden_size, 2 * shape.ffn, bias=False)
        self.down = nn.Linear(shape.ffn, shape.hidden_size, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        count, length, _ = x.shape
        parts = self.qkv(self.norms[0](x)).view(count, length, -1, self.width).transpose(1, 2)
        q, k, v = parts.split([self.heads, self.groups, self.groups], 1)
        q, k = (y * cos + torch.cat((-y.chunk(2, -1)[1], y.chunk(2, -1)[0]), -1) * sin
                for y in (q, k))  # fmt: skip
        mixed = F.scaled_dot_product_attention(
            q.to(v.dtype), k.to(v.dtype), v, is_causal=True, enable_gqa=True
        )
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        gate, up = self.up(self.norms[1](x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Plain(nn.Module):
    """(B, S) ids to the mean cross-entropy of the next ids."""

    def __init__(self, shape: Shape, vocabulary: int, length: int) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, shape.hidden_size)
        self.layers = nn.ModuleList([Layer(shape) for _ in range(shape.layers)])
        self.norm = nn.RMSNorm(shape.hidden_size)
        self.head = nn.Linear(shape.hidden_size, vocabulary, bias=False)
        half = torch.arange(0, shape.head_width, 2) / shape.head_width
        angles = torch.outer(torch.arange(length), shape.rope_theta**-half).repeat(1, 2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.table(inputs)
        for layer in self.layers:
            x = layer(x, self.cos, self.sin)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets)


class PlainTraining:
    """Steps of `Plain`: gradients of microbatches are added, clipped and applied."""

    def __init__(self, shape: Shape, size: int, batch: tuple[int, int], device: Any) -> None:
        self.device = device
        self.model = Plain(shape, size, batch[1]).to(device)
        self.compiled: Any = torch.compile(self.model) if device.type == "cuda" else self.model
        self.adamw = torch.optim.AdamW(self.model.parameters(), 1e-4, (0.9, 0.95), fused=True)
        self.ids = torch.randint(size, (batch[0], batch[1] + 1), device=device)

    def step(self) -> None:
        for _ in range(MICROBATCHES):
            with torch.autocast(self.device.type, torch.bfloat16):
                loss = self.compiled(self.ids[:, :-1], self.ids[:, 1:].flatten())
            (loss / MICROBATCHES).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.adamw.step()
        self.adamw.zero_grad()


def measured(options: argparse.Namespace) -> dict[str, float]:
    """Tokens per second of each variant; without those that do not fit the memory."""
    device, ranks = pick_device(), start_ranks()
    gpu = device.type == "cuda"
    config = resolve(RunSettings(model="tiny" if options.tiny else options.model), gpu=gpu)
    scale = 400 if options.tiny else 1
    size, active = ROWS["full"] // scale, ROWS["sub:2"] // scale
    batch = (2, 16 if options.tiny else config.data.seq_length)
    tokens = MICROBATCHES * batch[0] * batch[1]

    def modtok() -> Callable[[], Any]:
        with backbone_of(None):
            model = Model(
                config.shape, size, ranks, dtype=getattr(torch, config.precision.dtype), chunk=8192,
                execution=config.switches(1) if gpu else None,
            )  # fmt: skip
        for layer in model.backbone.attentions:
            layer.kernel = options.attention
        return partial(take_steps, model, [micro_of(size, active, *batch, device)] * MICROBATCHES)

    variants: dict[str, tuple[int, Callable[[], Callable[[], Any]]]] = {
        "modtok, V_S of T": (active, modtok),
        "plain, V_S": (active, lambda: PlainTraining(config.shape, active, batch, device).step),
        "plain, T": (size, lambda: PlainTraining(config.shape, size, batch, device).step),
    }
    rates = {}
    for name, (rows, make) in variants.items():
        try:
            seconds = consecutive({name: make()}, options.steps, device, again=False)[name][0]
        except (torch.OutOfMemoryError, RuntimeError) as error:
            emit({"what": "peer", "variant": name, "error": str(error).splitlines()[0]})
            continue
        finally:
            gc.collect()
            if gpu:
                torch.cuda.empty_cache()
        used = utilization(config.shape, batch[1], [(tokens, float(rows))], seconds, device)
        emit({"what": "peer", "model": config.architecture.model, "variant": name,
              "output_rows": rows,
              "tokens_per_second": round(tokens / seconds), **used})  # fmt: skip
        rates[name] = tokens / seconds
    return rates


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--model", default="0.5b")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--attention", default="flash", help="modtok's, flash or cudnn")
    parser.add_argument("--tiny", action="store_true")
    rates = measured(parser.parse_args())
    mine, *others = rates.values()
    over = {name: round(mine / one, 3) for name, one in zip(list(rates)[1:], others, strict=True)}
    emit({"what": "peer", "modtok_over": over})
    stop_ranks()
