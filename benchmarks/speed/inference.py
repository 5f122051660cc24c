"""Decoding: a slice against the full vocabulary at several model sizes.

    python -m benchmarks inference [--slice 24000] [--full 340147] [--steps 24] tiny small

Weights are random and vocabularies are numbers: |V_S| = 24,000 and |T| = 340,147, that of
sequential BPE of 21 languages. Both heads take turns, token by token and pass by pass, and the
medians are given, with what the machine was doing else (load: of the last minute). JSON lines.
"""

from __future__ import annotations

import argparse
import os
from statistics import median

import torch

from benchmarks.common import emit
from modtok_cli.inference.cost.random_model import RandomModel
from modtok_cli.training.recipe import PRESETS


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["tiny", "small"])
    parser.add_argument("--slice", type=int, default=24_000)
    parser.add_argument("--full", type=int, default=340_147)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--passes", type=int, default=7)
    options = parser.parse_args()
    gpu = torch.cuda.is_available()
    device = torch.device("cuda" if gpu else "cpu")
    sizes = [options.slice, options.full]
    for name in options.models:
        shape = PRESETS[name].shape
        model = RandomModel(shape, max(sizes), torch.bfloat16 if gpu else torch.float32, device)
        decode = model.decode_seconds(sizes, options.steps)
        ids = torch.zeros(1, options.length, dtype=torch.int64, device=device)
        for size in sizes:  # the first pass pays for allocations
            model.seconds(ids, size)
        times = [[model.seconds(ids, size) for size in sizes] for _ in range(options.passes)]
        forward = [median(each[i] for each in times) for i in range(2)]
        for kind, found in (("decode", decode), ("forward", forward)):
            row = {"model": name, "what": kind, "device": device.type}
            row |= {"threads": torch.get_num_threads(), "parameters": shape.parameters}
            row |= {"load": round(os.getloadavg()[0], 1), "cores": os.cpu_count()}
            row |= {"slice_ms": 1000 * found[0], "full_ms": 1000 * found[1]}
            emit({**row, "full_over_slice": found[1] / found[0]})


if __name__ == "__main__":
    main()
