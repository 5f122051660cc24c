"""A training step, from the draw to the update."""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.training import checkpoint
from modtok_cli.training.data.slot_packer import Batch
from modtok_cli.training.distributed.ranks import gather_json
from modtok_cli.training.metrics import LanguageSums, mean_bits, peak_flops, timing
from modtok_cli.training.model.model import MicroBatch, Model
from modtok_cli.training.model.optimizer import clip, gradient_norm
from modtok_cli.training.rows.microbatch import Prefetcher

if TYPE_CHECKING:
    from modtok_cli.training.prepare import Run


def train_step(run: Run, model: Model, feed: Prefetcher, step: int) -> dict[str, Any]:
    """One step of a run. Returns the line for the metrics.

    Raises:
        ModtokError: loss or gradient is not finite; names the batches. Nothing is updated.
    """
    config, ranks = run.config, run.ranks
    started, waited, host = time.perf_counter(), feed.stream.waited, model.host_seconds
    # Draw: language and subtokenizer of each group of sequences, of all ranks. Workers make the
    # same draws for the sequences of this rank, and pack and tokenize their text ahead.
    groups = range(config.batch_size // config.group_size(ranks.replicas))
    draws = config.draws(run.mixture, step, groups)
    now = feed.step(step)
    upcoming = feed.ahead(step + 1) if config.offload_delay else None
    lr = config.lr_at(step)
    losses, norm = optimizer_step(
        model,
        now.microbatches,
        lr,
        dense=config.update == "dense",
        upcoming=upcoming.microbatches if upcoming is not None else None,
    )
    _refuse_infinite(run, step, now.batches, losses, float(norm))
    sums = LanguageSums(run.mixture.languages, run.device)
    for batch, nll in zip(now.batches, losses, strict=True):
        sums.add(batch, nll)
    loss, languages = sums.over_replicas(ranks)
    seconds = time.perf_counter() - started
    spent = {name: round(after - host[name], 4) for name, after in model.host_seconds.items()}
    return {
        "step": step,
        "loss": loss,
        "bits_per_byte": mean_bits(languages),
        "lr": lr,
        "grad_norm": float(norm),
        "tokens": step * config.step_tokens,
        "languages": languages,
        "draws": list(map(str, draws)),
        "time": timing(
            seconds=seconds,
            waited=feed.stream.waited - waited,
            tokens=config.step_tokens,
            flops=config.shape.step_flops(config.seq_length, now.sizes) * ranks.replicas,
            peak=config.device_flops or peak_flops(run.device, model.dtype),
            world=ranks.world,
        )
        | ({"offload": spent} if spent else {}),
    }


def optimizer_step(
    model: Model,
    microbatches: Sequence[MicroBatch],
    lr: float,
    *,
    dense: bool = False,
    upcoming: Sequence[MicroBatch] | None = None,
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Train on this rank's microbatches. Collective.

    `upcoming` are the `microbatches` of the next call, if known: offloaded rows are then
    prefetched. `dense` requires tables on the device.

    Returns:
        nll of each microbatch's tokens, and the gradient norm of the whole model before
        clipping. If the norm is not finite, nothing is updated.
    """
    backbone, optimizer = model.backbone, model.optimizer
    # Gather: rows of the tokens that occur (input) and that may be predicted (output).
    backbone.clear_gradients()
    plan = model.plan(microbatches)
    input_rows, output_rows = active = model.gather(plan, upcoming=upcoming)
    losses = []
    for index, microbatch in enumerate(microbatches):
        with backbone.accumulating(more=index + 1 < len(microbatches)):
            # Forward, loss over V_S, backward.
            hidden = model.hidden(microbatch.inputs, input_rows)
            loss, nll = model.cross_entropy(hidden, microbatch, output_rows)
            (loss / len(microbatches)).backward()  # type: ignore[no-untyped-call]
        losses.append(nll)
        for rows in active:
            rows.add_gradient()
    # Exchange: mean gradients over replicas, those of rows on the ranks that own them.
    gradients = {}
    if model.only_rows is None:
        gradients = optimizer.own(backbone.finish_gradients())
    row_gradients = model.reduce(plan, active)
    of_rows = [gradient for _, gradient in row_gradients.values()]
    # Update: backbone and rows, clipped together.
    norm = gradient_norm(
        gradients, backbone.parameters, of_rows, model.ranks, sharded=optimizer.distributed
    )
    if bool(torch.isfinite(norm)):
        clip([*gradients.values(), *of_rows], norm, model.clip)
        if model.only_rows is None:
            optimizer.step(gradients, lr)
        model.update(row_gradients, lr, dense)
    return losses, norm


def _refuse_infinite(
    run: Run, step: int, batches: Sequence[Batch], losses: Sequence[torch.Tensor], norm: float
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
    raise diverged(run, what)


def diverged(run: Run, what: str) -> ModtokError:
    """The error that ends a run whose numbers are not finite; says which checkpoint is there."""
    run.checkpointer.close()  # the one that is being written counts
    last = checkpoint.last_step(run.directory.checkpoints)
    saved = "" if last is None else f"the checkpoint of step {last} is kept; "
    return ModtokError(
        what, where=str(run.directory.path), remedy=f"{saved}try a lower --lr in another run"
    )
