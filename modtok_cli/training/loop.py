"""`modtok pretrain`: the training loop. Every process runs `pretrain`, on CPU or GPUs."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import torch

from modtok_cli.base.errors import ModtokError
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.training import checkpoint
from modtok_cli.training.config import OPTIONS, RunSettings
from modtok_cli.training.data.sampling import draw
from modtok_cli.training.data.slot_packer import Batch
from modtok_cli.training.data.stream import BatchStream, StreamPlan
from modtok_cli.training.data.text_store import TextStore
from modtok_cli.training.distributed.ranks import gather_json
from modtok_cli.training.distributed.watchdog import Watchdog
from modtok_cli.training.fitting import evaluation_plan
from modtok_cli.training.heldout import bits_of
from modtok_cli.training.initial import open_initial
from modtok_cli.training.interrupt import StopSignals, stopped
from modtok_cli.training.metrics import LanguageSums, mean_bits, peak_flops, timing
from modtok_cli.training.model.model import Model
from modtok_cli.training.prepare import Run, prepare, update_config
from modtok_cli.training.reporting import Reporter, texts_of
from modtok_cli.training.rows.host_tables import Offload
from modtok_cli.training.rows.prefetcher import Prefetcher
from modtok_cli.training.tasks import TaskEvaluator

# Bytes of held-out text that are evaluated before a checkpoint is saved.
_PROBE = 512


@dataclass
class RunReport:
    """Directory of a run, its last step, and its last evaluation per text and language."""

    output: Path
    step: int
    lines: list[dict[str, Any]] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        """A row per language, with the run and its last step."""
        return [{**line, "run": str(self.output), "step": self.step} for line in self.lines]


def build_model(run: Run) -> Model:
    """The model with its initial weights."""
    config = run.config
    offload = None
    if config.offload:
        offload = Offload(
            delay=config.offload_delay,
            moments=getattr(torch, config.offload_moments),
            directory=config.offload_file,
            warn=run.progress.warn,
        )
    return Model(
        config.shape,
        run.subtokenizers.size,
        run.ranks,
        seed=config.seed,
        dtype=getattr(torch, config.dtype),
        recompute=config.recompute,
        adamw=config.adamw,
        clip=config.clip,
        z_loss=config.z_loss,
        init=config.init,
        distributed=config.distributed_optimizer,
        execution=config.execution(run.ranks.replicas),
        offload=offload,
        only_rows=run.only_rows,
        end_of_text=run.subtokenizers.end_of_text if config.attention == "document" else None,
    )


def restore(run: Run, model: Model) -> tuple[int, dict[int, dict[str, tuple[int, int]]]]:
    """Load the last valid checkpoint: (its step, stream positions by slot).

    The ranks share a pass over the files of the checkpoint; each then loads its part.

    Raises:
        ModtokError: all checkpoints are damaged, or of another model.
    """
    found = checkpoint.newest(run.directory.checkpoints, run.progress, run.ranks)
    if found is None:
        return 0, {}
    path, state = found
    checkpoint.load(path, state, model)
    run.progress.note(f"resuming after step {state['step']:,}")
    positions = {
        int(slot): {language: (int(n), int(at)) for language, (n, at) in packer.items()}
        for slot, packer in state["positions"].items()
    }
    return int(state["step"]), positions


def open_stream(
    run: Run, step: int, positions: dict[int, dict[str, tuple[int, int]]]
) -> Prefetcher:
    """The batches of this rank's slots from `step` on."""
    config, ranks = run.config, run.ranks
    plan = StreamPlan(
        tokenizer=run.tokenizer,
        stores={language: store.directory for language, store in run.stores.items()},
        regime=config.regime,
        p=config.p,
        mixture=run.mixture,
        seed=config.seed,
        slots=config.batch_size,
        group=config.group_size(ranks.replicas),
        length=config.seq_length,
    )
    share = config.batch_size // ranks.replicas
    mine = range(ranks.replica * share, (ranks.replica + 1) * share)
    stream = BatchStream(
        plan, mine, first_step=step, last_step=config.steps, state=positions, workers=config.workers
    )
    sequences = config.sequences(ranks.replicas)
    return Prefetcher(stream, run.subtokenizers, run.device, sequences)


def train_step(run: Run, model: Model, feed: Prefetcher, step: int) -> dict[str, Any]:
    """One step: batches, forward, backward, update. Returns the line for the metrics.

    Raises:
        ModtokError: loss or gradient is not finite; names the batches. Nothing is updated.
    """
    config, ranks = run.config, run.ranks
    started, waited = time.perf_counter(), feed.waited
    now = feed.step(step)
    upcoming = feed.ahead(step + 1) if config.offload_delay else None
    host = model.host_seconds
    rate = config.lr_at(step)
    losses, norm = model.step(
        now.microbatches,
        rate,
        dense=config.update == "dense",
        upcoming=upcoming.microbatches if upcoming is not None else None,
    )
    _refuse_infinite(run, step, now.batches, losses, float(norm))
    sums = LanguageSums(run.mixture.languages, run.device)
    for batch, nll in zip(now.batches, losses, strict=True):
        sums.add(batch, nll)
    loss, languages = sums.over_replicas(ranks)
    seconds = time.perf_counter() - started
    flops = config.shape.step_flops(config.seq_length, now.sizes) * ranks.replicas
    spent = {name: round(after - host[name], 4) for name, after in model.host_seconds.items()}
    return {
        "step": step,
        "loss": loss,
        "bits_per_byte": mean_bits(languages),
        "lr": rate,
        "grad_norm": float(norm),
        "tokens": step * config.step_tokens,
        "languages": languages,
        "draws": _draws(run, step),
        "time": timing(
            seconds=seconds,
            waited=feed.waited - waited,
            tokens=config.step_tokens,
            flops=flops,
            peak=config.device_flops or peak_flops(run.device, model.dtype),
            world=ranks.world,
        )
        | ({"offload": spent} if spent else {}),
    }


def _draws(run: Run, step: int) -> list[str]:
    """The draws of a step, over all ranks, in order of groups."""
    config = run.config
    groups = config.batch_size // config.group_size(run.ranks.replicas)
    return [
        str(draw(config.regime, config.p, run.mixture, config.seed, step, group))
        for group in range(groups)
    ]


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
    raise _diverged(run, what)


def _diverged(run: Run, what: str) -> ModtokError:
    run.checkpointer.close()  # the one that is being written counts
    last = checkpoint.last_step(run.directory.checkpoints)
    kept = "" if last is None else f"the checkpoint of step {last} is kept; "
    return ModtokError(
        what, where=str(run.directory.path), remedy=f"{kept}try a lower --lr in another run"
    )


def evaluate(run: Run, model: Model, step: int) -> dict[str, Any]:
    """Bits per byte of each language on held-out text and on the texts of --valid.

    Raises:
        ModtokError: the loss is not finite.
    """
    line = _held_out(run, model, step, run.config.eval_bytes, run.stores)
    if run.valid:
        line["valid"] = {
            name: _bits(
                run,
                model,
                {language: (store, range(len(store))) for language, store in stores.items()},
                run.config.eval_bytes,
            )
            for name, stores in run.valid.items()
        }
    return line


def _bits(
    run: Run,
    model: Model,
    texts: Mapping[str, tuple[TextStore, Sequence[int]]],
    most: int,
) -> dict[str, dict[str, float]]:
    """Figures of each language under its own subtokenizer (T for joint)."""
    joint = run.config.regime.kind == "joint"
    model.drain()
    return bits_of(
        model,
        texts,
        {name: run.subtokenizers.of(None if joint else (name,)) for name in texts},
        end_of_text=run.subtokenizers.end_of_text,
        length=run.config.seq_length,
        rows=run.config.micro_batch,
        most=most,
    )


def _held_out(
    run: Run, model: Model, step: int, most: int, languages: Iterable[str]
) -> dict[str, Any]:
    """Bits per byte of held-out text, `most` bytes of each language.

    Raises:
        ModtokError: the loss is not finite, so that diverged weights are not saved.
    """
    texts = {name: (run.stores[name], run.stores[name].held_out) for name in languages}
    found = _bits(run, model, texts, most)
    mean = mean_bits(found)
    if mean is not None and not isfinite(mean):
        wrong = [name for name, f in found.items() if not isfinite(f["bits_per_byte"])]
        raise _diverged(
            run, f"after step {step} held-out text has no finite loss ({', '.join(wrong)})"
        )
    return {"step": step, "held_out": found, "bits_per_byte": mean}


def save_checkpoint(run: Run, model: Model, stream: Prefetcher, step: int) -> None:
    """Save weights, moments and stream positions. Collective: every rank calls it.

    Raises:
        ModtokError: the file system refused, or weights are not finite. Earlier checkpoints
            stay.
    """
    positions: dict[str, Any] = {}
    for part in gather_json(run.ranks, {str(slot): one for slot, one in stream.state.items()}):
        positions.update(part)
    try:
        run.checkpointer.save(model, step, {"positions": positions})
    except checkpoint.NotFinite as error:
        raise _diverged(run, f"after step {step} {error}") from error


def pretrain(
    settings: RunSettings,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Progress = SILENT,
    evaluator: TaskEvaluator | None = None,
) -> RunReport:
    """Train a model on the languages of `data`, with sampled subtokenizers.

    Under torchrun, srun or `modtok pretrain --gpus N` every process calls it. `evaluator` is
    required by `eval_tasks`.

    Raises:
        ModtokError, UsageError: settings or files are not usable, the disk is full, the loss
            is not finite. The last checkpoint stays.
        Stopped: SIGTERM or SIGINT; a checkpoint was saved.
    """
    run = prepare(settings, resume=resume, force=force, progress=progress, evaluator=evaluator)
    try:
        hang_seconds = 60 * run.config.hang_timeout
        with StopSignals() as signals, Watchdog(run.ranks, hang_seconds):
            return _pretrain(run, resume, signals)
    finally:
        run.directory.close()


def _pretrain(run: Run, resume: bool, signals: StopSignals) -> RunReport:
    model = build_model(run)
    step, positions = restore(run, model) if resume else (0, {})
    run.config = config = run.config.resumed_after(step)
    if config.init_from is not None and step == 0:
        source = run.initial or open_initial(config.init_from)
        source.initialize(
            model, run.subtokenizers.tokenizer, rows=config.init_rows, note=run.progress
        )
    if run.ranks.first:
        if resume:
            update_config(run)
        if not resume:
            run.progress.note(_describe(run, model))
    reporter = Reporter(run, step)
    stream = open_stream(run, step + 1, positions)
    last: dict[str, Any] = {}
    try:
        with run.progress.task("training", config.steps, "steps") as task:
            task.advance(step)
            if step and run.tasks.due(step) and not reporter.has_tasks(step):
                reporter.tasks(run.tasks.evaluate(step))
            for now in range(step + 1, config.steps + 1):
                line = train_step(run, model, stream, now)
                reporter.step(line, task)
                if now % config.eval_every == 0 or now == config.steps:
                    last = evaluate(run, model, now)
                    reporter.evaluation(last)
                number = signals.agreed(run.ranks) if now < config.steps else 0
                due = run.tasks.due(now)
                if number or due or now % config.save_every == 0 or now == config.steps:
                    _save(run, model, stream, now, evaluated=last.get("step") == now)
                if number:  # a resumed run evaluates the tasks of this step
                    run.checkpointer.wait()
                    raise stopped(number, now, _resume_command(run))
                if due:
                    run.checkpointer.wait()
                    reporter.tasks(run.tasks.evaluate(now))
        run.checkpointer.wait()
    finally:
        stream.close()
        run.checkpointer.close()
        model.close()
        reporter.close()
    if not last:
        run.progress.warn(
            f"{run.directory.path} is finished ({step:,} steps); --steps N trains further"
        )
        last = evaluate(run, model, step)
    return RunReport(run.directory.path, max(step, config.steps), list(_rows(last)))


def _rows(line: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row per text and language of an evaluation."""
    for text, figures in texts_of(line).items():
        for language, values in figures.items():
            yield {"language": language, "text": text, **values}


def _save(run: Run, model: Model, stream: Prefetcher, step: int, *, evaluated: bool) -> None:
    """Save a checkpoint, after a look at a held-out loss: huge weights may still be finite."""
    if not evaluated:
        names = sorted(run.stores)
        _held_out(run, model, step, _PROBE, [names[step % len(names)]])
    save_checkpoint(run, model, stream, step)


def _resume_command(run: Run) -> str:
    words = ["modtok", "pretrain", "--resume", "--name", run.directory.path.name]
    if run.config.runs != OPTIONS["runs"].default:
        words += ["--runs", str(run.config.runs)]
    return shlex.join(words)


def _describe(run: Run, model: Model) -> str:
    config, ranks = run.config, run.ranks
    tables = sum(table.size * table.width for table in model.tables.values())
    where = f"{ranks.world} × {torch.cuda.get_device_name()}" if ranks.device.type == "cuda" else ""
    where = where or (f"{ranks.world} processes on CPU" if ranks.world > 1 else "one CPU process")
    return (
        f"{config.model}: {config.shape.parameters:,} parameters in the backbone, "
        f"{tables:,} in the tables of {run.subtokenizers.size:,} rows; {config.steps:,} steps of "
        f"{config.step_tokens:,} tokens, {config.sampling}, on {where}; "
        f"{evaluation_plan(config, len(run.mixture.languages))}; {run.directory.path}"
    )


def finish() -> None:
    """Destroy the process groups, at the end of a process."""
    with suppress(Exception):
        from modtok_cli.training.distributed.ranks import stop_ranks

        stop_ranks()
