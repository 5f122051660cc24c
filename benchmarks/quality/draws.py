"""One draw per optimizer step, per rank or per microbatch: what a model gains or loses.

    python -m benchmarks draws --data DIR -t TOKENIZER --work DIR [--seeds 3] [--steps 600] \
        > results.jsonl

The same model is trained with each number of draws per step, on one process: a step of
`sequences` sequences with one draw is `--draw step`, with 4 draws it has the batches of
`--draw rank` on 4 ranks, with `sequences / 2` draws those of `--draw micro --micro-batch 2`. For
each run: held-out bits per byte by language, rows that a step activates, bytes that `--offload`
moves for them, seconds per step. Then the gradient noise of each kind of draw at the weights of
each run: E|g - E g|^2 / |E g|^2 over the gradients g of the backbone for 24 batches, where the
mean's own noise is subtracted; 1 means that noise and signal of a step are equal. A finished
run in `--work` is not trained again.
"""

from __future__ import annotations

import argparse
import json
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.common import emit
from modtok_cli.base.progress import SILENT
from modtok_cli.training import loop
from modtok_cli.training.model.model import Model
from modtok_cli.training.prepare import Run, prepare
from modtok_cli.training.rows.microbatch import active_ids
from modtok_cli.training.settings import RunSettings

LENGTH, SEQUENCES, HIDDEN = 128, 16, 96
# Name and micro-batch of `--draw micro` that gives the number of draws; None: one per step.
DRAWS = {"step": None, "rank of 4": 4, "micro of 2": 2}
BATCHES = 24


def settings(options: argparse.Namespace, kind: str, seed: int) -> RunSettings:
    """The run of one kind of draw."""
    group = DRAWS[kind]
    return RunSettings(
        sampling=options.sampling,
        draw="step" if group is None else "micro",
        micro_batch=4 if group is None else group,
        data=options.data,
        tokenizer=options.tokenizer,
        runs=options.work,
        name=f"{kind.replace(' ', '-')}-{seed}",
        model="tiny",
        layers=2,
        hidden_size=HIDDEN,
        ffn=256,
        heads=3,
        kv_heads=3,
        head_width=32,
        seq_length=LENGTH,
        batch_size=SEQUENCES,
        steps=options.steps,
        warmup=options.steps // 20,
        lr=2e-3,
        eval_every=options.steps,
        save_every=options.steps,
        keep=1,
        seed=seed,
        workers=0,
    )


def gradient_noise(run: Run, model: Model, kind: str, step: int) -> float:
    """Noise of a step's gradient relative to its signal, for the draws of `kind`."""
    group = DRAWS[kind]
    config = replace(
        run.config,
        draw="step" if group is None else "micro",
        micro_batch=4 if group is None else group,
        steps=step + BATCHES,
    )
    total = squares = None
    with closing(loop.open_stream(replace(run, config=config), step + 1, {})) as stream:
        for now in range(step + 1, step + 1 + BATCHES):
            batches = stream.step(now).microbatches
            model.backbone.clear_gradients()
            active = model.activate(batches)
            for one in batches:
                loss, _ = model.loss(one, active)
                loss.backward()  # type: ignore[no-untyped-call]
            found = model.backbone.finish_gradients()
            flat = torch.cat([found[name].flatten().double() for name in sorted(found)])
            total = flat if total is None else total + flat
            squares = flat @ flat if squares is None else squares + flat @ flat
    assert total is not None
    assert squares is not None
    mean = total / BATCHES
    noise = (squares / BATCHES - mean @ mean) * BATCHES / (BATCHES - 1)
    return float(noise / (mean @ mean - noise / BATCHES))


def active_rows(run: Run, model: Model, steps: int = 100) -> tuple[float, float]:
    """Mean rows of input and output table that a step activates."""
    totals = [0, 0]
    with closing(loop.open_stream(run, 1, {})) as stream:
        for step in range(1, steps + 1):
            found = active_ids(model.tables, stream.step(step).microbatches, run.ranks)
            for index, ids in enumerate(found.values()):
                totals[index] += len(ids)
    return totals[0] / steps, totals[1] / steps


def measure(options: argparse.Namespace, kind: str, seed: int) -> dict[str, Any]:
    """Train (or open) one run and measure it."""
    asked = settings(options, kind, seed)
    path = options.work / str(asked.name)
    if not (path / "checkpoints" / f"step-{options.steps}").is_dir():
        loop.pretrain(asked, resume=path.is_dir(), force=False)
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    seconds = sorted(line["time"]["step_seconds"] for line in lines if "time" in line)
    held_out = next(line for line in reversed(lines) if "held_out" in line)
    run = prepare(replace(asked, name=path.name), resume=True, force=False, progress=SILENT)
    with closing(run.directory), closing(loop.build_model(run)) as model:
        step, _ = loop.restore(run, model)
        rows_in, rows_out = active_rows(run, model)
        noise = {each: round(gradient_noise(run, model, each, step), 3) for each in DRAWS}
    per_language = {k: v["bits_per_byte"] for k, v in held_out["held_out"].items()}
    return {
        "what": "draws",
        "draw": kind,
        "seed": seed,
        "draws_per_step": SEQUENCES // (DRAWS[kind] or SEQUENCES),
        "steps": options.steps,
        "bits_per_byte": round(sum(per_language.values()) / len(per_language), 4),
        "languages": {name: round(bits, 4) for name, bits in per_language.items()},
        "active_rows": {"input": round(rows_in), "output": round(rows_out)},
        # bfloat16 rows to the device, float32 gradients back.
        "offload_bytes": round((rows_in + rows_out) * HIDDEN * (2 + 4)),
        "step_seconds": round(seconds[len(seconds) // 2], 4),
        "gradient_noise": noise,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("-t", "--tokenizer", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True, help="directory of the runs")
    parser.add_argument("--sampling", default="sub:2")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=600)
    options = parser.parse_args()
    torch.set_num_threads(1)
    for seed in range(options.seeds):
        for kind in DRAWS:
            began = time.perf_counter()
            row = measure(options, kind, seed)
            emit(row | {"minutes": round((time.perf_counter() - began) / 60, 1)})
    return 0
