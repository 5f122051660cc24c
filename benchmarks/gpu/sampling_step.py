"""A training step of a preset under none, sub:2 and full: time, MFU, memory beside the plan.

    python -m benchmarks sampling_step --model 0.5b      # on a GPU
    python -m benchmarks sampling_step --scale 0.005     # tiny, on a CPU

T is that of 21 languages with 24,000 rows each (times `--scale`); a batch predicts over the rows of
1 language, of a union of 3 as it is drawn, or over all. `--attention` names kernels, as
`parallelism.attention_kernel` does. Variants take turns. A JSON line each; what does not fit the
memory has a line too.
"""

from __future__ import annotations

import statistics
from typing import Any

import torch

from benchmarks.common import describe, emit, parser_of
from benchmarks.gpu.training_step import ROWS, backbone_of, clock, micro_of, utilization
from helpers.microbatches import optimizer_step
from modtok_cli.model.architecture.arithmetic import step_flops
from modtok_cli.training.distributed.ranks import pick_device, start_ranks, stop_ranks
from modtok_cli.training.model.model import Model
from modtok_cli.training.recipe import PRESETS
from modtok_cli.training.resolve import resolve
from modtok_cli.training.run_memory import StepRows, capacity, memory_parts, recomputed, total
from modtok_cli.training.settings import RunSettings

MICROBATCHES = 4
ATTENTIONS = "flash,cudnn"


class Variant:
    """Steps of a model under one sampling and one attention."""

    def __init__(self, model: Model, config: Any, rows: int, attention: str) -> None:
        self.model, self.config, self.rows, self.attention = model, config, rows, attention
        shape = (config.data.micro_batch, config.data.seq_length)
        size = model.output.size
        micro = micro_of(size, rows, *shape, model.ranks.device)
        self._microbatches = [micro] * MICROBATCHES
        self.sizes = [(shape[0] * shape[1], float(rows))] * MICROBATCHES
        self.flops = step_flops(config.shape, config.data.seq_length, self.sizes)
        self.plan = total(memory_parts(config, size, StepRows(rows, rows, rows), 1))
        self.seconds: list[float] = []
        self.error: str | None = None

    def step(self, seconds: list[float]) -> None:
        """One step, timed; after one that did not fit the memory, nothing."""
        if self.error is not None:
            return
        for layer in self.model.backbone.attentions:
            layer.kernel = self.attention
        try:
            with clock(seconds, self.model.ranks.device):
                optimizer_step(self.model, self._microbatches, 1e-4)
        except (torch.OutOfMemoryError, RuntimeError) as error:
            self.error = str(error).splitlines()[0]
            self.model.backbone.clear_gradients()
            torch.cuda.empty_cache()


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--model", default="tiny", choices=PRESETS)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--length", type=int, help="tokens of a sequence; default: the preset's")
    parser.add_argument("--recompute", type=int, help="layers; default: by the memory")
    parser.add_argument("--attention", default=ATTENTIONS)
    options = parser.parse_args()
    device, ranks = pick_device(), start_ranks()
    gpu = device.type == "cuda"
    micro = PRESETS[options.model]["micro_batch"]
    settings = RunSettings(
        model=options.model, batch_size=micro * MICROBATCHES, seq_length=options.length
    )
    config = resolve(settings, gpu=gpu)
    rows = {name: int(count * options.scale) for name, count in ROWS.items()}
    step_rows = StepRows(*[rows["full"]] * 3)
    room, _ = capacity(config, gpu=gpu)
    if options.recompute is not None:
        config = config.changed(recompute=options.recompute)
    config = recomputed(config, rows["full"], step_rows, 1, room)
    dtype = getattr(torch, config.precision.dtype)
    with backbone_of(None):
        model = Model(
            config.shape,
            rows["full"],
            ranks,
            dtype=dtype,
            recompute=config.parallelism.recompute or 0,
            execution=config.switches(1) if gpu else None,
        )
    attentions = options.attention.split(",") if gpu else ["cpu"]
    variants = {
        (sampling, attention): Variant(model, config, count, attention)
        for attention in attentions
        for sampling, count in rows.items()
    }
    for turn in range(options.steps + 2):
        for one in variants.values():
            one.step(one.seconds if turn >= 2 else [])
    for (sampling, attention), one in variants.items():
        peak = None
        if gpu and one.error is None:
            torch.cuda.reset_peak_memory_stats()
            one.step([])
            peak = torch.cuda.max_memory_allocated()
        base = variants["none", attention]
        seconds = statistics.median(one.seconds or [float("nan")])
        emit(
            {
                "what": "sampling",
                "model": options.model,
                "sampling": sampling,
                "attention": attention,
                "output_rows": one.rows,
                "tokens": config.step_tokens,
                "recompute": config.parallelism.recompute,
                "step_seconds": round(seconds, 5) if one.seconds else None,
                **utilization(config.shape, config.data.seq_length, one.sizes, seconds, device),
                "against_none": round(seconds / statistics.median(base.seconds), 3)
                if one.seconds and base.seconds
                else None,
                "flops_against_none": round(one.flops / base.flops, 3),
                "peak_bytes": peak,
                "planned_bytes": one.plan,
                "error": one.error,
                "machine": torch.cuda.get_device_name() if gpu else describe(),
            }
        )
    stop_ranks()
