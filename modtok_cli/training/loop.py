"""`modtok pretrain`: the training loop. Every process runs `pretrain`, on CPU or GPUs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from modtok_cli.base.progress import SILENT, Progress
from modtok_cli.training.data.stream import State
from modtok_cli.training.distributed.ranks import stop_ranks
from modtok_cli.training.distributed.watchdog import Watchdog
from modtok_cli.training.evaluations import evaluation_plan
from modtok_cli.training.heldout import evaluate
from modtok_cli.training.initial import open_initial
from modtok_cli.training.model.execution import in_one_order
from modtok_cli.training.model.model import Model
from modtok_cli.training.model.phases import Pace
from modtok_cli.training.opening import update_config
from modtok_cli.training.prepare import prepare
from modtok_cli.training.profiling import profiled
from modtok_cli.training.reads import in_words, planned_reads, reads_until_now, warn_of
from modtok_cli.training.reporting import Reporter, texts_of
from modtok_cli.training.rows.microbatch import Prefetcher
from modtok_cli.training.run import Run, Stage, TaskEvaluation
from modtok_cli.training.run_state import (
    build_model,
    open_stream,
    positions_after,
    restore,
    save_checkpoint,
)
from modtok_cli.training.settings import RunSettings
from modtok_cli.training.step import Finish, train_step
from modtok_cli.training.stopping import StopSignals
from modtok_cli.training.task_scores import evaluate_tasks, tasks_due


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
    run = prepare(settings, resume=resume, force=force, progress=progress, tasks=tasks)
    device, own = run.ranks.device, run.config.parallelism
    order = in_one_order(device) if own.deterministic else nullcontext()
    try:
        with StopSignals(run) as signals, Watchdog(run.ranks, 60 * own.hang_timeout), order:
            model, step, positions = _start(run, resume=resume)
            try:
                last = _train(run, model, step, positions, signals)
            finally:
                run.checkpointer.close()
                model.close()
            if not last:
                run.progress.warn(
                    f"{run.directory.path} is finished ({step:,} steps); "
                    f"{'' if run.config.stages else 'more --steps or '}another [[stage]] "
                    "continues it"
                )
                last = evaluate(run.stage_of(step), model, step)
    finally:
        run.directory.close()
    return RunReport(run.directory.path, max(step, run.config.last_step), list(_rows(last)))


def _start(run: Run, *, resume: bool) -> tuple[Model, int, State]:
    """The model of a new or resumed run, its last step, and stream positions by slot."""
    config, progress = run.config, run.progress
    model = build_model(run)
    step, positions = restore(run, model) if resume else (0, {})
    model.backbone.rotate_by(run.stage_of(step).config.shape.rope_theta)
    if config.init.init_from is not None and step == 0:
        source = run.initial or open_initial(config.init.init_from)
        tokenizer = run.subtokenizers.tokenizer
        source.initialize(model, tokenizer, rows=config.init.init_rows, note=progress)
    if run.ranks.first and resume:
        update_config(run)
    if run.ranks.first and step < config.last_step:
        reads = planned_reads(run)
        warn_of(reads, progress)
        if not resume:
            progress.note(_describe(run, model, in_words(reads)))
    return model, step, positions


def _train(
    run: Run, model: Model, step: int, positions: State, signals: StopSignals
) -> dict[str, Any]:
    """Train after `step` to the end of the run: the last evaluation, {} if no step is left."""
    own, end = run.config.evaluation, run.config.last_step
    reporter, pace = Reporter(run, step), Pace(run.ranks)
    last: dict[str, Any] = {}
    with (
        closing(reporter),
        run.progress.task("training", end, "steps") as task,
        profiled(run) as end_step,
        closing(_stream(run, model, step, positions)) as stream,
    ):
        task.advance(step)
        steps = _Steps(lambda line: reporter.step(line, task), model.kernels, pace)
        if step and tasks_due(run, step) and not reporter.has_tasks(step):
            reporter.tasks(evaluate_tasks(run, step))
        for stage, feed, now in stream:
            # The step before is read while the device computes this one.
            steps.start(train_step(stage, model, feed, now))
            if now % own.eval_every == 0 or now == end:
                steps.finish()
                last = evaluate(stage, model, now)
                last["epochs"] = reads_until_now(stage, feed.stream.state)
                last["shares"] = reporter.shares(stage.mixture)
                reporter.evaluation(last)
            stopping = signals.agreed(pace) if now < end else 0
            due = tasks_due(run, now)
            if stopping or due or now % own.save_every == 0 or now == end:
                steps.finish()
                save_checkpoint(stage, model, feed.stream, now, evaluated=last.get("step") == now)
            if stopping:  # a resumed run evaluates the tasks of this step
                run.checkpointer.wait()
                raise signals.stopped(stopping, now)
            if due:
                run.checkpointer.wait()
                reporter.tasks(evaluate_tasks(run, now))
            end_step()
        run.checkpointer.wait()
        reporter.end()
    return last


def _stream(
    run: Run, model: Model, step: int, positions: State
) -> Generator[tuple[Stage, Prefetcher, int], None, None]:
    """The steps after `step`: (stage, its batches, step). Collective where a stage begins."""
    for stage in run.stages:
        first = max(stage.steps.start, step + 1)
        if first not in stage.steps:
            continue
        model.backbone.rotate_by(stage.config.shape.rope_theta)
        feed = open_stream(stage, first, positions)
        try:
            for now in range(first, stage.steps.stop):
                yield stage, feed, now
            positions = positions_after(run, feed.stream)
        finally:
            feed.close()


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


def _rows(line: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A row per text and language of an evaluation."""
    for text, figures in texts_of(line).items():
        for language, values in figures.items():
            yield {"language": language, "text": text, **values}


def _describe(run: Run, model: Model, reads: str) -> str:
    config, ranks = run.config, run.ranks
    tables = sum(table.size * table.width for table in model.tables.values())
    where = f"{ranks.world} × {torch.cuda.get_device_name()}" if ranks.device.type == "cuda" else ""
    steps = ", then ".join(
        f"{len(one.steps):,} steps of {one.config.step_tokens:,} tokens" for one in run.stages
    )
    where = where or (f"{ranks.world} processes on CPU" if ranks.world > 1 else "one CPU process")
    return (
        f"{config.architecture.model}: {config.shape.parameters:,} parameters in the backbone, "
        f"{tables:,} in the tables of {run.subtokenizers.size:,} rows; "
        f"{steps}, {config.sampling.sampling}, on {where}; {reads}; "
        f"{evaluation_plan(config, len(run.held_out))}; {run.directory.path}"
    )


def finish() -> None:
    """Destroy the process groups, at the end of a process."""
    with suppress(Exception):
        stop_ranks()
