"""`modtok pretrain`: the training loop. Every process runs `pretrain`, on CPU or GPUs."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist

from modtok_cli.base.errors import Stopped
from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.training import checkpoint
from modtok_cli.training.data.slot_packer import StreamPlan, place_of
from modtok_cli.training.data.stream import BatchStream, State, positions_of
from modtok_cli.training.distributed.launch import handling
from modtok_cli.training.distributed.ranks import Ranks, gather_json, stop_ranks
from modtok_cli.training.distributed.watchdog import Watchdog
from modtok_cli.training.evaluations import evaluation_plan
from modtok_cli.training.heldout import evaluate, evaluate_held_out
from modtok_cli.training.initial import open_initial
from modtok_cli.training.model.execution import in_one_order
from modtok_cli.training.model.model import Model
from modtok_cli.training.model.phases import Pace
from modtok_cli.training.prepare import prepare, update_config
from modtok_cli.training.profiling import profiled
from modtok_cli.training.reads import in_words, planned_reads, reads_until_now, warn_of
from modtok_cli.training.reporting import Reporter, texts_of
from modtok_cli.training.rows.host_tables import Offload
from modtok_cli.training.rows.microbatch import Prefetcher
from modtok_cli.training.run import Run, TaskEvaluation
from modtok_cli.training.settings import OPTIONS, RunSettings
from modtok_cli.training.step import Finish, train_step
from modtok_cli.training.task_scores import evaluate_tasks, tasks_due

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


def pretrain(
    settings: RunSettings,
    *,
    resume: bool = False,
    force: bool = False,
    progress: Progress = SILENT,
    tasks: TaskEvaluation | None = None,
) -> RunReport:
    """Train a model on the languages of `data`, with sampled subtokenizers.

    Under torchrun, srun or `modtok pretrain --gpus N` every process calls it. `tasks` evaluates
    those of `eval_tasks`.

    Raises:
        ModtokError, UsageError: settings or files are not usable, the disk is full, the loss
            is not finite. The last checkpoint stays.
        Stopped: one of `launch.SIGNALS`; a checkpoint was saved.
    """
    runs = prepare(settings, resume=resume, force=force, progress=progress, tasks=tasks)
    place = runs[0].place
    try:
        hang_seconds = 60 * runs[0].config.parallelism.hang_timeout
        ranks = place.ranks
        order = (
            in_one_order(ranks.device)
            if runs[0].config.parallelism.deterministic
            else nullcontext()
        )
        with StopSignals() as signals, Watchdog(ranks, hang_seconds), order:
            return _pretrain(runs, resume, signals)
    finally:
        place.directory.close()


def _pretrain(runs: Sequence[Run], resume: bool, signals: StopSignals) -> RunReport:
    model, step, positions = _start(runs, resume)
    run = runs[0]
    config = run.config
    end = config.last_step
    reporter = Reporter(config, run.place, step)
    last: dict[str, Any] = {}
    try:
        with (
            run.place.progress.task("training", end, "steps") as task,
            profiled(config.profile, run.place) as end_step,
            closing(_stream(runs, model, step, positions)) as stream,
        ):
            task.advance(step)
            pace = Pace(run.place.ranks)
            steps = _Steps(lambda line: reporter.step(line, task), model.kernels, pace)
            if step and tasks_due(runs[0], step) and not reporter.has_tasks(step):
                reporter.tasks(evaluate_tasks(runs[0], step))
            for run, feed, now in stream:
                # The step before is read while the device computes this one.
                steps.start(train_step(run, model, feed, now))
                if now % config.evaluation.eval_every == 0 or now == end:
                    steps.finish()
                    last = evaluate(run, model, now)
                    last["epochs"] = reads_until_now(
                        run.config, run.texts.stores, run.place.ranks, feed.stream.state
                    )
                    last["shares"] = reporter.shares(run.texts.mixture)
                    reporter.evaluation(last)
                number = signals.agreed(run.place.ranks, pace) if now < end else 0
                due = tasks_due(runs[0], now)
                if number or due or now % config.evaluation.save_every == 0 or now == end:
                    steps.finish()
                    save_checkpoint(run, model, feed.stream, now, evaluated=last.get("step") == now)
                if number:  # a resumed run evaluates the tasks of this step
                    run.place.checkpointer.wait()
                    raise _stopped(number, now, _resume_command(run))
                if due:
                    run.place.checkpointer.wait()
                    reporter.tasks(evaluate_tasks(runs[0], now))
                end_step()
        run.place.checkpointer.wait()
        reporter.end()
    finally:
        run.place.checkpointer.close()
        model.close()
        reporter.close()
    if not last:
        run.place.progress.warn(
            f"{run.place.directory.path} is finished ({step:,} steps); "
            f"{'' if config.stages else 'more --steps or '}another [[stage]] continues it"
        )
        last = evaluate(_of_step(runs, step), model, step)
    return RunReport(run.place.directory.path, max(step, end), list(_rows(last)))


def _stream(
    runs: Sequence[Run], model: Model, step: int, positions: State
) -> Generator[tuple[Run, Prefetcher, int], None, None]:
    """The steps after `step`: (stage, its batches, step). Collective where a stage begins."""
    for run in runs:
        first = max(run.steps.start, step + 1)
        if first not in run.steps:
            continue
        model.backbone.rotate_by(run.config.shape.rope_theta)
        feed = open_stream(run, first, positions)
        try:
            for now in range(first, run.steps.stop):
                yield run, feed, now
            positions = _positions(run, feed.stream)
        finally:
            feed.close()


def _of_step(runs: Sequence[Run], step: int) -> Run:
    """The stage of a step; the last for steps after it."""
    return next((run for run in runs if step in run.steps), runs[-1])


class _Steps:
    """Steps in order: each is finished, and its line reported, when the next one has started.

    The first line names the `kernels`.
    """

    def __init__(
        self,
        report: Callable[[dict[str, Any]], None],
        kernels: Mapping[str, Any],
        pace: Pace,
    ) -> None:
        self._kernels, self._pace = kernels, pace
        self._report, self._finished = report, 0.0
        self._started: Finish | None = None

    def start(self, step: Finish) -> None:
        """Finish the step before."""
        self.finish()
        self._started = step

    def finish(self) -> None:
        """Wait for the last step that started, if it is not finished."""
        step, self._started = self._started, None
        if step is not None:
            line, self._finished = step(self._finished)
            line["time"] |= self._pace.add(line["time"]["phases"])
            if self._kernels:
                line["time"]["kernels"], self._kernels = self._kernels, {}
            self._report(line)


def _start(runs: Sequence[Run], resume: bool) -> tuple[Model, int, State]:
    """The model of a new or resumed run, its last step, and stream positions by slot."""
    run = runs[0]
    model = build_model(run)
    step, positions = restore(run, model) if resume else (0, {})
    config = run.config
    model.backbone.rotate_by(_of_step(runs, step).config.shape.rope_theta)
    if config.init.init_from is not None and step == 0:
        source = run.initial or open_initial(config.init.init_from)
        source.initialize(
            model,
            run.texts.subtokenizers.tokenizer,
            rows=config.init.init_rows,
            note=run.place.progress,
        )
    if run.place.ranks.first and resume:
        update_config(runs)
    if run.place.ranks.first and step < config.last_step:
        reads = planned_reads(runs)
        warn_of(reads, run.place.progress)
        if not resume:
            run.place.progress.note(_describe(run, model, in_words(reads)))
    return model, step, positions


def build_model(run: Run) -> Model:
    """The model with its initial weights."""
    config = run.config
    offload = None
    if config.parallelism.offload:
        offload = Offload(
            delay=config.parallelism.offload_delay,
            moments=getattr(torch, config.parallelism.offload_moments),
            directory=config.parallelism.offload_file,
            warn=run.place.progress.warn,
        )
    return Model(
        config.shape,
        run.texts.subtokenizers.size,
        run.place.ranks,
        seed=config.init.seed,
        dtype=getattr(torch, config.precision.dtype),
        recompute=run.recompute,
        chunk=run.chunk,
        adamw=config.optimizer.adamw,
        clip=config.optimizer.clip,
        z_loss=config.optimizer.z_loss,
        init=config.init.scales,
        distributed=config.parallelism.distributed_optimizer,
        execution=config.switches(run.place.ranks.replicas)
        if run.place.ranks.device.type == "cuda"
        else None,
        offload=offload,
        only_rows=run.only_rows,
        end_of_text=run.texts.subtokenizers.end_of_text
        if config.data.attention == "document"
        else None,
        warn=run.place.progress.warn,
    )


def restore(run: Run, model: Model) -> tuple[int, State]:
    """Load the last valid checkpoint: (its step, stream positions by slot).

    The ranks share a pass over the files of the checkpoint; each then loads its part.
    """
    newest = checkpoint.newest(run.place.directory.checkpoints, run.place.progress, run.place.ranks)
    if newest is None:
        return 0, {}
    path, state = newest
    checkpoint.load(path, state, model)
    run.place.progress.note(f"resuming after step {state['step']:,}")
    return int(state["step"]), _read_positions(state["positions"])


def open_stream(run: Run, step: int, positions: State) -> Prefetcher:
    """The batches of this rank's slots from `step` on, to the end of the stage.

    `positions` are of all slots, maybe of the stage before.
    """
    config, ranks = run.config, run.place.ranks
    plan = StreamPlan(
        tokenizer=run.tokenizer,
        stores={name: store.directory for name, store in run.texts.stores.items()},
        regime=config.sampling.regime,
        p=config.sampling.p,
        mixture=run.texts.mixture,
        seed=config.init.seed,
        slots=config.data.batch_size,
        group=config.group_size,
        length=config.data.seq_length,
        dropout=config.sampling.dropout,
    )
    stores = {place_of(name, store): store for name, store in run.texts.stores.items()}

    def length(text: str, place: int) -> int:
        store = stores.get(text)  # not of a text of other stages
        return (
            0 if store is None else store.length(store.training_document(place, config.init.seed))
        )

    share = config.data.batch_size // ranks.replicas
    mine = range(ranks.replica * share, (ranks.replica + 1) * share)
    stream = BatchStream(
        plan,
        mine,
        first_step=step,
        last_step=run.steps.stop - 1,
        state=positions_of(positions, config.data.batch_size, length),
        workers=config.data.workers,
    )
    sequences = config.sequences(ranks.replicas)
    return Prefetcher(stream, run.texts.subtokenizers, ranks, sequences, run.place.progress.warn)


def save_checkpoint(
    run: Run, model: Model, stream: BatchStream, step: int, *, evaluated: bool
) -> None:
    """Save weights, moments and stream positions. Collective: every rank calls it."""
    if not evaluated:  # look at a held-out loss: huge weights may still be finite
        names = sorted(run.texts.held_out)
        evaluate_held_out(run, model, step, _PROBE, [names[step % len(names)]])
    positions = {str(slot): one for slot, one in _positions(run, stream).items()}
    try:
        run.place.checkpointer.save(model, step, {"positions": positions})
    except checkpoint.NotFinite as error:
        raise run.place.diverged(f"after step {step} {error}") from error


def _positions(run: Run, stream: BatchStream) -> State:
    """Stream positions of the slots of all ranks. Collective."""
    every = gather_json(run.place.ranks, {str(slot): one for slot, one in stream.state.items()})
    return _read_positions({slot: one for part in every for slot, one in part.items()})


def _read_positions(stored: Mapping[str, Mapping[str, Sequence[int]]]) -> State:
    """Positions that were JSON, by slot in ascending order."""
    return {
        int(slot): {text: (number, at) for text, (number, at) in stored[slot].items()}
        for slot in sorted(stored, key=int)
    }


def _rows(line: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row per text and language of an evaluation."""
    for text, figures in texts_of(line).items():
        for language, values in figures.items():
            yield {"language": language, "text": text, **values}


def _resume_command(run: Run) -> str:
    words = ["modtok", "pretrain", "--resume", "--name", run.place.directory.path.name]
    if run.config.runs != OPTIONS["runs"].default:
        words += ["--runs", str(run.config.runs)]
    return shlex.join(words)


def _describe(run: Run, model: Model, reads: str) -> str:
    config, ranks = run.config, run.place.ranks
    tables = sum(table.size * table.width for table in model.tables.values())
    where = f"{ranks.world} × {torch.cuda.get_device_name()}" if ranks.device.type == "cuda" else ""
    steps = ", then ".join(
        f"{len(one.steps):,} steps of {one.config.step_tokens:,} tokens" for one in config.periods
    )
    where = where or (f"{ranks.world} processes on CPU" if ranks.world > 1 else "one CPU process")
    return (
        f"{config.architecture.model}: {config.shape.parameters:,} parameters in the backbone, "
        f"{tables:,} in the tables of {run.texts.subtokenizers.size:,} rows; "
        f"{steps}, {config.sampling.sampling}, on {where}; {reads}; "
        f"{evaluation_plan(config, len(run.texts.held_out))}; {run.place.directory.path}"
    )


class StopSignals:
    """Context in which the first of `launch.SIGNALS` is only noted; a second one stops at once.

    A terminal that is closed sends SIGHUP more than once.

    A run stops at the end of a step, on all ranks together.

    Attributes:
        received: the signal that was received, 0 if none.
    """

    def __init__(self) -> None:
        self.received = 0
        self._handling = ExitStack()

    def __enter__(self) -> StopSignals:
        self._handling.enter_context(handling(self._note))
        return self

    def __exit__(self, *_: object) -> None:
        self._handling.close()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if not self.received or number == signal.SIGHUP:
            self.received = self.received or number
            return
        self._handling.close()
        signal.raise_signal(number)

    def agreed(self, ranks: Ranks, pace: Pace) -> int:
        """The signal to stop for, the same on all ranks; 0 to continue. A collective.

        `pace` learns what it wants to know of the others.
        """
        if ranks.world == 1:
            return self.received
        largest = torch.tensor([self.received, *pace.numbers()])
        dist.all_reduce(largest, op=dist.ReduceOp.MAX, group=ranks.hosts)
        received, *others = largest.tolist()
        pace.learn(others)
        return int(received)


def _stopped(number: int, step: int, command: str) -> Stopped:
    """The error that ends a run whose state after `step` is saved."""
    name = signal.Signals(number).name
    return Stopped(
        f"stopped by {name} after step {step:,}", number, remedy=f"resume with {command}"
    )


def finish() -> None:
    """Destroy the process groups, at the end of a process."""
    with suppress(Exception):
        stop_ranks()
