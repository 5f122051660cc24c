"""The configuration of a run: settings in which every option has its value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Any, Self

from modtok_cli.base.errors import UsageError
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.training.data.sampling import Draw, Mixture, draw
from modtok_cli.training.schedule import Schedule, tenth
from modtok_cli.training.settings import OPTIONS, RunSettings
from modtok_cli.training.stages import RATE, StageTable

if TYPE_CHECKING:  # they import torch
    from modtok_cli.training.model.execution import Execution


@dataclass(frozen=True, init=False, kw_only=True)
class Config(RunSettings):
    """Settings in which every option has its value. `resolve` and `stored_config` make them.

    `shape` is the model. Options of its fields, such as `tied`, repeat what it holds.
    """

    shape: Shape
    stages: tuple[StageTable, ...]

    def __init__(self, *, shape: Shape, **options: Any) -> None:
        """Make settings of a run with its model; errors are those of `RunSettings`."""
        vars(self)["shape"] = shape
        super().__init__(**options)

    def changed(self, **options: Any) -> Self:
        """A copy with other values of some options, which are checked, and its own periods."""
        copied = super().changed(**options)
        vars(copied).pop("periods", None)
        return copied

    @property
    def group_size(self) -> int:
        """Number of consecutive slots that share a draw."""
        return self.data.batch_size if self.sampling.draw == "step" else self.data.micro_batch

    def draws(self, mixture: Mixture, step: int, groups: range) -> list[Draw]:
        """Language and subtokenizer of groups of sequences in a step."""
        regime = self.sampling.regime
        p, seed = self.sampling.p, self.init.seed
        return [draw(regime, p, mixture, seed, step, group) for group in groups]

    def sequences(self, replicas: int) -> int:
        """Sequences per forward pass of a rank: `micro_batch`, or a part that divides its share."""
        return gcd(self.data.micro_batch, self.data.batch_size // replicas)

    def switches(self, replicas: int) -> Execution:
        """How GPUs execute the backbone on a number of replicas; what has no effect is off."""
        from modtok_cli.training.model.execution import Execution

        own = self.parallelism
        overlap = replicas > 1 and self.init.train == "all"
        return Execution(
            overlap_grad_reduce=overlap,
            overlap_param_gather=overlap and own.distributed_optimizer,
            sequence_parallel=own.tp > 1 and self.data.seq_length % own.tp == 0,
            fused=True,
            transformer_engine=own.transformer_engine,
            attention=own.attention_kernel,
        )

    @property
    def step_tokens(self) -> int:
        """Tokens per step of the first stage, or of the stage that this is the configuration of."""
        return self.data.batch_size * self.data.seq_length

    @property
    def last_step(self) -> int:
        """The last step of the last stage."""
        return self.schedule.steps + sum(stage.steps for stage in self.stages)

    @cached_property
    def periods(self) -> tuple[Period, ...]:
        """The stages in order, with the configuration of each."""
        own = self.schedule
        schedule = Schedule(
            own.schedule, own.lr, own.final_lr, own.warmup, own.decay_steps, own.lr_steps
        )
        periods = [Period(1, range(1, own.steps + 1), self, schedule, StageTable(own.steps, {}))]
        for stage in self.stages:
            before, first = periods[-1], periods[-1].steps.stop
            steps = range(first, first + stage.steps)
            changed = before.config._changed_by(stage)
            schedule = _schedule_of(stage, steps, before.schedule)
            periods.append(Period(before.number + 1, steps, changed, schedule, stage))
        found = tuple(periods)
        for period in found:  # a stage's configuration has the same: n of them, not n²
            vars(period.config)["periods"] = found
        return found

    def _changed_by(self, stage: StageTable) -> Config:
        """The configuration of the next stage; `lr_at` knows its learning rate."""
        changes = {name: value for name, value in stage.options.items() if name not in RATE}
        most = changes.get("batch_size", self.data.batch_size)
        changes = {"micro_batch": min(self.data.micro_batch, most), **changes}
        if "rope_theta" in changes:
            changes["shape"] = replace(self.shape, rope_theta=changes["rope_theta"])
        return self.changed(**changes)

    @property
    def tokens(self) -> int:
        """Tokens of all steps."""
        return sum(len(period.steps) * period.config.step_tokens for period in self.periods)

    def lr_at(self, step: int) -> float:
        """Learning rate of a step (1 …).

        >>> from modtok_cli.training.resolve import resolve
        >>> resolve(RunSettings(lr=1.0, warmup=10, steps=110), gpu=False).lr_at(5)
        0.5
        """
        period = next((one for one in self.periods if step in one.steps), self.periods[-1])
        return period.schedule.rate(step)


def _schedule_of(stage: StageTable, steps: range, before: Schedule) -> Schedule:
    """The learning rate of a stage: to its last step, from the rate that was reached."""
    given = stage.options
    if not given.keys() & set(RATE):
        return before
    reached = before.rate(steps.start - 1)
    usual = tenth(given["lr"]) if "lr" in given else min(before.final, reached)
    return Schedule(
        given.get("schedule", before.kind),
        given.get("lr", reached),
        given.get("final_lr", usual),
        given.get("warmup", 0),
        given.get("decay_steps", max(1, len(steps) // 5)),
        steps.stop - 1,
        steps.start - 1,
        reached,
    )


@dataclass(frozen=True)
class Period:
    """The steps of a stage, and the configuration in them.

    Attributes:
        number: 1 for the first.
        config, schedule: the configuration there, and the learning rate.
        table: what changes it; of the first stage, one that changes nothing.
    """

    number: int
    steps: range
    config: Config
    schedule: Schedule
    table: StageTable

    @contextmanager
    def locating(self) -> Iterator[None]:
        """Context whose errors name the table."""
        with self.table.locating() if self.number > 1 else nullcontext():
            yield


def run_name(config: Config) -> str:
    """The directory below `runs`: as given, else named after sampling and preset."""
    sampling = config.sampling.sampling.replace(":", "-")
    return config.name or f"{sampling}-{config.architecture.model}"


def check_ranks(config: Config, world: int) -> None:
    """Check that model and step divide evenly over the processes."""
    shape, tp = config.shape, config.parallelism.tp
    if world % tp:
        raise UsageError(f"--tp {tp} needs a multiple of {tp} processes; this run has {world}")
    if shape.kv_heads % tp or shape.ffn % tp:
        most = max(
            n for n in range(1, tp) if not (world % n or shape.kv_heads % n or shape.ffn % n)
        )
        raise UsageError(
            f"{config.architecture.model} has {shape.kv_heads} key-value heads and a feed-forward "
            f"size of {shape.ffn}, not both divisible by {tp}",
            where="--tp",
            remedy=f"use --tp {most}",
        )
    replicas = world // tp
    if config.data.batch_size % replicas:
        raise UsageError(
            f"{config.data.batch_size} sequences per step are not divisible by {replicas} replicas",
            where="--batch-size",
            remedy=f"use a multiple of {replicas}",
        )


def refuse_conflicts(config: Config) -> None:
    """Refuse options that do not go together, in any stage."""
    tp = config.parallelism.tp
    divides = config.data.seq_length % tp == 0
    for period in config.periods:
        with period.locating():
            invalid = period.config.shape.invalid_field()
            if invalid:
                flag = OPTIONS[invalid].flag if invalid in OPTIONS else f"field '{invalid}'"
                raise UsageError("does not fit the other sizes of the model", where=flag)
            for name, what, remedy in conflicts(period.config):
                raise UsageError(what, where=OPTIONS[name].flag, remedy=remedy)
            if (period.config.data.seq_length % tp == 0) != divides:
                raise UsageError(
                    f"--tp {tp} divides the length of some stages only",
                    where=OPTIONS["seq_length"].flag,
                    remedy=f"use a multiple of {tp} in all",
                )
            _refuse_rate(period)


def _refuse_rate(period: Period) -> None:
    """Refuse options of a stage that have no effect on its rate, and a stage that learns nothing.

    Weight decay is multiplied by the rate too.
    """
    options, schedule = period.table.options, period.schedule
    unused = {"final_lr": schedule.kind == "constant", "decay_steps": schedule.kind != "wsd"}
    for name in unused:
        if unused[name] and name in options:
            what = f"has no effect: the schedule is {schedule.kind}"
            remedy = "set schedule of the stage"
            raise UsageError(what, where=OPTIONS[name].flag, remedy=remedy)
    if options.keys() & set(RATE) and schedule.final > schedule.peak:
        raise UsageError(
            f"{schedule.final:g} is above the rate {schedule.peak:g} that it decays from",
            where=OPTIONS["final_lr"].flag,
            remedy="use a lower rate, or set lr of the stage",
        )
    first, last = period.steps[0], period.steps[-1]
    if period.number > 1 and schedule.rate(first) == schedule.rate(last) == 0:
        raise UsageError("the learning rate is 0 in all of its steps", remedy="set its lr")


def conflicts(config: Config) -> Iterator[tuple[str, str, str]]:
    """Options that do not go together: the option to change, what is wrong, and what to do."""
    data, schedule, parallelism = config.data, config.schedule, config.parallelism
    is_dense, only_rows = config.optimizer.update == "dense", config.init.train == "rows"
    if data.batch_size % data.micro_batch:
        yield (
            "micro_batch",
            f"a batch of {data.batch_size} is not divisible into microbatches of "
            f"{data.micro_batch}",
            "use a divisor of --batch-size",
        )
    if schedule.final_lr > schedule.lr:
        what = f"{schedule.final_lr:g} is above --lr {schedule.lr:g}"
        yield "final_lr", what, "use a lower rate"
    if parallelism.offload and is_dense:
        yield (
            "update",
            "dense updates read and write whole tables, which --offload avoids",
            "use --set optimizer.update=sparse, or leave out --offload",
        )
    if parallelism.transformer_engine and config.shape.own_layer:
        what = f"does not have the layers of {config.shape.architecture}"
        yield "transformer_engine", what, "leave it out"
    if parallelism.deterministic and parallelism.transformer_engine:
        yield "deterministic", "Transformer Engine adds in no fixed order", "leave out one of them"
    if parallelism.deterministic and parallelism.attention_kernel == "cudnn":
        yield "deterministic", "cuDNN's attention adds in no fixed order", "use flash attention"
    if only_rows and parallelism.distributed_optimizer:
        yield (
            "distributed_optimizer",
            "shards the state of the backbone, which --train rows does not train",
            "leave it out",
        )
    if only_rows and is_dense:
        yield (
            "update",
            "dense updates change all rows, and --train rows only new ones",
            "use --set optimizer.update=sparse",
        )
