"""A training step, from the draw to the update."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import torch

from modtok_cli.measure.lost import unmeasured
from modtok_cli.model.architecture.arithmetic import step_flops
from modtok_cli.training.data.slot_packer import Batch
from modtok_cli.training.distributed.ranks import gather_json
from modtok_cli.training.metrics import HELD_OUT, LanguageSums, mean_bits, peak_flops, timing
from modtok_cli.training.model.model import MicroBatch, Model
from modtok_cli.training.model.optimizer import clip, gradient_norm
from modtok_cli.training.rows.microbatch import Prefetcher
from modtok_cli.training.rows.offload import Rows
from modtok_cli.training.run import Run, Stage

Finish = Callable[[float], tuple[dict[str, Any], float]]
"""Waits for a step: from when the one before had ended to its line of metrics, and its end."""


def train_step(stage: Stage, model: Model, feed: Prefetcher, step: int) -> Finish:
    """Start a step, which the device may still compute when this returns.

    A step whose loss or gradient is not finite updates nothing: the device decides that.

    Returns:
        What finishes the step. It raises ModtokError if loss or gradient is not finite, and names
        the batches.
    """
    config, run, ranks = stage.config, stage.run, stage.run.ranks
    started, phases = time.perf_counter(), model.phases
    phases.begin("wait")
    # Draw: language and subtokenizer of each group of sequences, of all ranks. Workers make the
    # same draws for the sequences of this rank, and pack and tokenize their text ahead.
    groups = range(config.data.batch_size // config.group_size)
    draws = config.draws(stage.mixture, step, groups)
    now = feed.step(step)
    upcoming = feed.ahead(step + 1) if config.parallelism.offload_delay else None
    lr = config.lr_at(step)
    gradients = mean_gradients(model, now.microbatches, upcoming.microbatches if upcoming else None)
    sums = LanguageSums(stage.mixture.languages, ranks.device)
    for batch, microbatch, nll in zip(now.batches, now.microbatches, gradients.losses, strict=True):
        trained = microbatch.weights > 0
        counted = trained & (microbatch.targets != run.subtokenizers.end_of_text)
        sums.add(batch.draw.language, nll, counted, batch.bytes, trained)
    numbers = torch.cat([sums.over_replicas(ranks), gradients.norm.view(1)])
    arriving = model.copies.download(
        numbers, lambda: model.copies.empty(len(numbers), numbers.dtype)
    )
    apply(model, gradients, lr, dense=config.optimizer.update == "dense")
    phases.begin("wait")
    following = feed.ahead(step + 1)  # copied, and planned, while the device computes
    phases.begin("gather")
    if following is not None:
        model.plan_ahead(following.microbatches)
    spent = {name: round(seconds, 4) for name, seconds in model.take_host_seconds().items()}
    marks, losses = phases.end(), gradients.losses
    known_end = time.perf_counter() if ranks.device.type == "cpu" else None

    def finish(before: float) -> tuple[dict[str, Any], float]:
        *figures, norm = arriving.wait().tolist()
        ended = known_end or time.perf_counter()
        _refuse_infinite(run, step, now.batches, losses, norm)
        loss, languages = sums.figures(figures, unmeasured(stage.lost[HELD_OUT]))
        times = timing(
            seconds=ended - max(started, before),
            tokens=config.step_tokens,
            flops=step_flops(config.shape, config.data.seq_length, now.sizes) * ranks.replicas,
            peak=config.parallelism.device_flops or peak_flops(ranks.device, model.dtype),
            world=ranks.world,
        )
        line = {
            "step": step,
            "stage": stage.period.number,
            "loss": loss,
            "bits_per_byte": mean_bits(languages),
            "lr": lr,
            "grad_norm": norm,
            "tokens": stage.tokens_at(step),
            "languages": languages,
            "draws": list(map(str, draws)),
            "time": times | {"phases": phases.read(marks)} | ({"offload": spent} if spent else {}),
        }
        return line, ended

    return finish


@dataclass(frozen=True)
class Gradients:
    """The gradients of a step, by which it updates.

    Attributes:
        losses: nll of each microbatch's tokens, in nats.
        backbone: gradients by parameter, of what this rank updates.
        rows: ids and gradients by table, of the rows that this rank owns.
        norm: of all gradients of the model together, a scalar on the device; not finite if a loss
            is not.
    """

    losses: list[torch.Tensor]
    backbone: dict[str, torch.Tensor]
    rows: Rows
    norm: torch.Tensor


def mean_gradients(
    model: Model,
    microbatches: Sequence[MicroBatch],
    upcoming: Sequence[MicroBatch] | None = None,
) -> Gradients:
    """Losses and gradients of this rank's microbatches, exchanged with the others. Collective.

    `upcoming` are the `microbatches` of the next call, if known: offloaded rows are then
    prefetched. The host does not wait for the device.
    """
    backbone, optimizer, phases = model.backbone, model.optimizer, model.phases
    # Rows of the tokens that occur (input) and that may be predicted (output).
    phases.begin("gather")
    backbone.clear_gradients()
    plan = model.plan(microbatches)
    active = model.gather(plan)
    losses, totals = [], []
    for index, microbatch in enumerate(microbatches):
        phases.begin("forward")
        with backbone.accumulating(more=index + 1 < len(microbatches)):
            loss, nll = model.loss(microbatch, active)
            phases.begin("backward")
            loss.backward()  # type: ignore[no-untyped-call]
        losses.append(nll)
        totals.append(loss.detach())
        for rows in active:
            rows.add_gradient()
        if index == 0:
            phases.begin("gather")
            model.proceed(upcoming)
    # Sums of gradients over replicas; gradients of rows are summed on the ranks that own them.
    phases.begin("exchange")
    gradients = {}
    if model.only_rows is None:
        gradients = optimizer.own(backbone.finish_gradients())
    row_gradients = model.reduce(plan, active)
    of_rows = [gradient for _, gradient in row_gradients.values()]
    norm = gradient_norm(
        gradients, backbone.parameters, of_rows, totals, model.ranks, sharded=optimizer.distributed
    )
    return Gradients(losses, gradients, row_gradients, norm)


def apply(model: Model, gradients: Gradients, lr: float, *, dense: bool = False) -> None:
    """Update backbone and rows by gradients that are clipped together.

    If their norm is not finite, nothing changes; the host does not wait to know. `dense` updates
    whole tables and requires them on the device.
    """
    model.phases.begin("update")
    model.copies.before_change()
    of_rows = [gradient for _, gradient in gradients.rows.values()]
    finite = torch.isfinite(gradients.norm)
    clip([*gradients.backbone.values(), *of_rows], gradients.norm, model.clip)
    # Rows first: gradients of those in host memory travel while the backbone's update runs.
    model.update(gradients.rows, lr, dense, finite)
    if model.only_rows is None:
        model.optimizer.step(gradients.backbone, lr, finite)


def _refuse_infinite(
    run: Run,
    step: int,
    batches: Sequence[Batch],
    losses: Sequence[torch.Tensor],
    norm: float,
) -> None:
    if isfinite(norm):
        return
    named = [
        f"sequence {batch.slot}, language {batch.draw.language}, subtokenizer "
        f"{','.join(batch.draw.languages) if batch.draw.languages else 'full'}, "
        f"from document {batch.first_document}"
        for batch, nll in zip(batches, losses, strict=True)
        if not bool(torch.isfinite(nll).all())
    ]
    every = sorted({name for names in gather_json(run.ranks, named) for name in names})
    what = f"the loss of step {step} is not finite ({'; '.join(every)})"
    if not every:
        what = f"the gradient of step {step} is not finite, the losses are"
    raise run.diverged(what)
