"""Time of a decoded token with all logits, with a mask, and with the rows of some languages.

    python -m benchmarks serving_cost [--model small] [--tokens 340176] [--active 40288]
        [--batches 1,8,64] [--steps 9] [--threads 1]
    python -m benchmarks serving_cost --arithmetic

A model of random weights decodes one token for each request of a batch, after 64 cached ones.
`all`: logits over T. `mask`: over T, then -inf outside two sets of languages, as engines do with
a list of allowed tokens. `rows`: as `modtok serve` does, over the union of the active rows. The
three take turns; times are medians of processor time. Requests alternate between two sets of
`active` tokens, of which half are common. Prints a JSON object for each model, batch and way.

`--arithmetic`: bytes that a step reads on a GPU, in bfloat16, and their time at 3.35 TB/s, the
bandwidth of an H100 SXM: the time that a step takes at least while it is bound by memory.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch

from benchmarks.common import describe, emit, parser_of
from modtok_cli.model.architecture.sizes import SIZES
from modtok_cli.model.cost.timing import RandomModel
from modtok_cli.model.generate.backbone import cache_name
from modtok_cli.model.serve.active_rows import ActiveRows

BANDWIDTH = 3.35e12
CONTEXT = 1024


def arithmetic(options: argparse.Namespace, batches: list[int]) -> None:
    for name in ("0.5b", "2.5b", "7b"):
        shape = SIZES[name]
        row = 2 * shape.hidden_size
        for batch in batches:
            cache = batch * CONTEXT * shape.kv_bytes_per_token(2)
            backbone = 2 * shape.parameters
            for way, rows in (("all, mask", options.tokens), ("rows", options.active)):
                size = backbone + cache + rows * row
                emit(
                    {
                        "what": "arithmetic", "model": name, "batch": batch, "way": way,
                        "rows_gb": round(rows * row / 1e9, 3), "read_gb": round(size / 1e9, 3),
                        "milliseconds": round(1e3 * size / BANDWIDTH, 2),
                    }
                )  # fmt: skip


def measure(options: argparse.Namespace, batches: list[int]) -> None:
    from transformers import DynamicCache

    torch.manual_seed(0)
    torch.set_num_threads(options.threads)
    size, active = options.tokens, options.active
    model = RandomModel(SIZES[options.model], size, torch.float32, torch.device("cpu"))
    order = torch.randperm(size)
    sets = {
        "a": order[:active].sort().values.numpy(),
        "b": order[active // 2 : active // 2 + active].sort().values.numpy(),
    }
    gathered: dict[bytes, torch.Tensor] = {}

    def whole(hidden: torch.Tensor) -> torch.Tensor:
        return hidden @ model.table.T

    def part(hidden: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        key = ids.numpy().tobytes()  # gathered once while the union stays, as in the server
        if key not in gathered:
            gathered[key] = model.table[ids]
        return hidden @ gathered[key].T

    restricted = ActiveRows(lambda names: sets[names], size)
    for batch in batches:
        prompt = torch.zeros(batch, 64, dtype=torch.int64)
        cache = DynamicCache(config=model.backbone.config)
        model.forward(prompt, 1, cache)
        times: dict[str, list[float]] = {"all": [], "mask": [], "rows": []}
        heads: list[float] = []
        for step in range(options.steps + 1):
            for way, kept in times.items():
                began = time.process_time()
                states = model.backbone(
                    inputs_embeds=torch.nn.functional.embedding(prompt[:, :1], model.table),
                    use_cache=True,
                    **{cache_name(model.backbone): cache},
                ).last_hidden_state[:, 0]
                middle = time.process_time()
                if way == "all":
                    whole(states)
                else:
                    restricted.choose({row: "ab"[row % 2] for row in range(batch)})
                    restricted.logits(states, whole, part if way == "rows" else None)
                if step:
                    kept.append(time.process_time() - began)
                    heads.append(middle - began)
        for way, kept in times.items():
            row: dict[str, Any] = {
                "what": "serving cost", "model": options.model, "tokens": size, "active": active,
                "batch": batch, "way": way, "milliseconds": round(1e3 * statistics.median(kept), 1),
                "backbone": round(1e3 * statistics.median(heads), 1),
                "least": round(1e3 * min(kept), 1), "steps": options.steps,
            }  # fmt: skip
            emit(row)


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--model", default="small")
    parser.add_argument("--tokens", type=int, default=340_176)
    parser.add_argument("--active", type=int, default=40_288)
    parser.add_argument("--batches", default="1,8,64")
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--arithmetic", action="store_true")
    options = parser.parse_args()
    batches = [int(each) for each in options.batches.split(",")]
    if options.arithmetic:
        arithmetic(options, batches)
    else:
        emit({"what": "machine", "machine": describe(), "torch": torch.__version__})
        with torch.inference_mode():
            measure(options, batches)
    return 0
