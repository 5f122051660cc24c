"""Memory of a training step on a CPU: what the plan predicts, and the measured peak.

    python -m benchmarks step_memory

Each shape runs in a process of its own, whose allocator returns memory at once. The peak is the
high-water mark of resident memory during a step, above what the process held before it.
Prints a JSON object a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from benchmarks.common import emit

# layers, hidden size, ffn, heads, kv heads, head width, sequences, length, output rows, dtype,
# recompute
CASES = (
    (4, 256, 704, 4, 2, 64, 8, 512, 1000, "float32", False),
    (8, 256, 704, 4, 2, 64, 8, 512, 1000, "float32", False),
    (2, 512, 1408, 4, 2, 128, 4, 1024, 1000, "float32", False),
    (4, 256, 704, 4, 2, 64, 8, 512, 20000, "float32", False),
    (8, 256, 704, 4, 2, 64, 8, 512, 1000, "float32", True),
    (4, 256, 704, 4, 2, 64, 8, 512, 1000, "bfloat16", False),
    (6, 384, 1056, 6, 3, 64, 2, 2048, 8000, "float32", False),
)
VOCABULARY = 40_000
# glibc: large blocks are mapped and unmapped, so that freed memory is not resident.
ALLOCATOR = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "0",
}


def status(field: str) -> int:
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def measure(case: list[Any]) -> dict[str, Any]:
    """Peak of one step in this process, and the parts that the plan predicts."""
    import torch

    from modtok_cli.architectures.families.llama import Llama
    from modtok_cli.training.config import resolve
    from modtok_cli.training.distributed.ranks import start_ranks
    from modtok_cli.training.memory import StepRows, memory_parts
    from modtok_cli.training.model.model import MicroBatch, Model
    from modtok_cli.training.settings import RunSettings
    from modtok_cli.training.step import optimizer_step

    torch.set_num_threads(1)
    layers, hidden, ffn, heads, kv_heads, width, sequences, length, rows, dtype, recompute = case
    shape = Llama(layers, hidden, ffn, heads, kv_heads, width)
    model = Model(
        shape, VOCABULARY, start_ranks(), dtype=getattr(torch, dtype), recompute=recompute
    )

    def batch(sequences: int, length: int, rows: int) -> MicroBatch:
        ids = torch.randint(0, VOCABULARY, (sequences, length))
        count = ids.numel()
        weights = torch.full((count,), 1 / count)
        return MicroBatch(ids, torch.randint(0, rows, (count,)), torch.arange(rows), weights)

    optimizer_step(model, [batch(1, 16, 64)], 1e-4)  # optimizer state and libraries
    full = batch(sequences, length, rows)
    before = status("VmRSS")
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # the high-water mark starts again
    optimizer_step(model, [full], 1e-4)
    peak = status("VmHWM") - before
    options = RunSettings(
        model="tiny", seq_length=length, batch_size=sequences, micro_batch=sequences, dtype=dtype,
        recompute=recompute,
    )  # fmt: skip
    from dataclasses import replace

    config = replace(resolve(options, gpu=False), shape=shape)
    union = (rows + len(torch.unique(full.inputs))) / 2  # mean of both tables
    parts = memory_parts(config, VOCABULARY, StepRows(rows, union, union), 1)
    planned = {name: parts[name][1] for name in ("active rows", "activations", "working memory")}
    return {"planned": planned, "peak": peak}


def main() -> int:
    if len(sys.argv) > 1 and sys.argv[1] == "one":
        print(json.dumps(measure(json.loads(sys.argv[2]))))
        return 0
    for case in CASES:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks", "step_memory", "one", json.dumps(case)],
            env={**os.environ, **ALLOCATOR},
            capture_output=True,
            text=True,
            check=True,
        )
        found = json.loads(done.stdout.splitlines()[-1])
        planned = sum(found["planned"].values())
        emit(
            {
                "what": "step memory",
                "shape": "{}x{} ffn {}, {}/{} heads of {}".format(*case[:6]),
                "tokens": f"{case[6]}x{case[7]}",
                "output_rows": case[8],
                "dtype": case[9],
                "recompute": case[10],
                "planned_mib": round(planned / 2**20, 1),
                "measured_mib": round(found["peak"] / 2**20, 1),
                "ratio": round(planned / found["peak"], 3),
            }
        )
    return 0
