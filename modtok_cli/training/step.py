"""A training step, from the draw to the update."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

import torch

from modtok_cli.measure.lost import unmeasured
from modtok_cli.training.data.slot_packer import Batch
from modtok_cli.training.distributed.ranks import gather_json
from modtok_cli.training.metrics import HELD_OUT, LanguageSums, mean_bits, peak_flops, timing
from modtok_cli.training.model.model import MicroBatch, Model
from modtok_cli.training.model.optimizer import clip, gradient_norm
from modtok_cli.training.rows.copies import Download
from modtok_cli.training.rows.microbatch import Prefetcher, Step
from modtok_cli.training.rows.offload import Rows
from modtok_cli.training.run import Run, RunPlace


def train_step(run: Run, model: Model, feed: Prefetcher, step: int) -> StartedStep:
    """Start a step of a run; the host does not wait for the device, which may still compute it.

    A step whose loss or gradient is not finite updates nothing: the device decides that.
    """
    config, texts, ranks = run.config, run.texts, run.place.ranks
    started, phases = time.perf_counter(), model.phases
    phases.begin("wait")
    # Draw: language and subtokenizer of each group of sequences, of all ranks. Workers make the
    # same draws for the sequences of this rank, and pack and tokenize their text ahead.
    groups = range(config.batch_size // config.group_size(ranks.replicas))
    draws = config.draws(texts.mixture, step, groups)
    now = feed.step(step)
    upcoming = feed.ahead(step + 1) if config.offload_delay else None
    lr = config.lr_at(step)
    gradients = mean_gradients(model, now.microbatches, upcoming.microbatches if upcoming else None)
    sums = LanguageSums(texts.mixture.languages, ranks.device)
    for batch, microbatch, nll in zip(now.batches, now.microbatches, gradients.losses, strict=True):
        trained = microbatch.weights > 0
        counted = trained & (microbatch.targets != texts.subtokenizers.end_of_text)
        sums.add(batch.draw.language, nll, counted, batch.bytes, trained)
    numbers = torch.cat([sums.over_replicas(ranks), gradients.norm.view(1)])
    arriving = model.copies.download(
        numbers, lambda: model.copies.empty(len(numbers), numbers.dtype)
    )
    apply(model, gradients, lr, dense=config.update == "dense")
    phases.begin("wait")
    following = feed.ahead(step + 1)  # copied, and planned, while the device computes
    phases.begin("gather")
    if following is not None:
        model.plan_ahead(following.microbatches)
    spent = {name: round(seconds, 4) for name, seconds in model.take_host_seconds().items()}
    return StartedStep(
        run,
        {"step": step, "lr": lr, "draws": list(map(str, draws))},
        now,
        gradients.losses,
        sums,
        arriving,
        partial(phases.read, phases.end()),
        started,
        time.perf_counter() if ranks.device.type == "cpu" else None,
        {"offload": spent} if spent else {},
        config.device_flops or peak_flops(ranks.device, model.dtype),
    )


@dataclass(frozen=True)
class StartedStep:
    """A step that the device may still compute.

    Attributes:
        known: what its line for the metrics has without the device: step, learning rate, draws.
        now, losses, sums: its batches, nll of each microbatch's tokens, and sums over them.
        arriving: the numbers of `LanguageSums.over_replicas`, and the gradient norm.
        phases: gives seconds by phase, when the step has ended.
        started, ended: when it was started, and had ended; None: the device says.
        host: what the line's "time" has of rows in host memory, since the step before.
        peak: FLOP/s of a device, None if unknown.
    """

    run: Run
    known: dict[str, Any]
    now: Step
    losses: list[torch.Tensor]
    sums: LanguageSums
    arriving: Download
    phases: Callable[[], dict[str, float]]
    started: float
    ended: float | None
    host: dict[str, Any]
    peak: float | None

    def finish(self, before: float) -> tuple[dict[str, Any], float]:
        """Wait for the step: its line for the metrics, and when it had ended.

        `before`: when the last one had.

        Raises:
            ModtokError: loss or gradient is not finite; names the batches.
        """
        config, ranks, step = self.run.config, self.run.place.ranks, self.known["step"]
        *numbers, norm = self.arriving.wait().tolist()
        ended = self.ended or time.perf_counter()
        _refuse_infinite(self.run.place, step, self.now.batches, self.losses, norm)
        loss, languages = self.sums.figures(numbers, unmeasured(self.run.lost[HELD_OUT]))
        line = {
            "step": step,
            "stage": self.run.number,
            "loss": loss,
            "bits_per_byte": mean_bits(languages),
            "lr": self.known["lr"],
            "grad_norm": norm,
            "tokens": self.run.tokens_at(step),
            "languages": languages,
            "draws": self.known["draws"],
            "time": timing(
                seconds=ended - max(self.started, before),
                tokens=config.step_tokens,
                flops=config.shape.step_flops(config.seq_length, self.now.sizes) * ranks.replicas,
                peak=self.peak,
                world=ranks.world,
            )
            | {"phases": self.phases()}
            | self.host,
        }
        return line, ended


@dataclass(frozen=True)
class Gradients:
    """What a step is updated by.

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
    # Sums of gradients over replicas, those of rows on the ranks that own them.
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


def optimizer_step(
    model: Model,
    microbatches: Sequence[MicroBatch],
    lr: float,
    *,
    dense: bool = False,
    upcoming: Sequence[MicroBatch] | None = None,
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Train on this rank's microbatches. Collective.

    Returns:
        nll of each microbatch's tokens, and the gradient norm of the whole model before
        clipping. If the norm is not finite, as with an infinite loss, nothing is updated.
    """
    gradients = mean_gradients(model, microbatches, upcoming)
    apply(model, gradients, lr, dense=dense)
    model.phases.end()
    return gradients.losses, gradients.norm


def _refuse_infinite(
    place: RunPlace,
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
    every = sorted({name for names in gather_json(place.ranks, named) for name in names})
    what = f"the loss of step {step} is not finite ({'; '.join(every)})"
    if not every:
        what = f"the gradient of step {step} is not finite, the losses are"
    raise place.diverged(what)
