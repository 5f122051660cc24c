"""The configuration of a run: settings in which every option has its value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING

from modtok_cli.architectures.shape import Shape
from modtok_cli.base.errors import UsageError
from modtok_cli.training.data.sampling import Draw, Mixture, Regime, draw
from modtok_cli.training.model.execution import Execution, InitStd
from modtok_cli.training.schedule import Schedule
from modtok_cli.training.settings import RunSettings

if TYPE_CHECKING:
    from modtok_cli.training.rows.table import AdamW


@dataclass(frozen=True, kw_only=True)
class Config(RunSettings):
    """Settings in which every option has its value. `resolve` and `stored_config` make them.

    `shape` is the model. Options of its fields, such as `tied`, repeat what it holds.
    `lr_ends` is the history of `lr_steps`, see `schedule.Schedule`.
    """

    shape: Shape
    lr_ends: tuple[tuple[int, int], ...]

    @property
    def regime(self) -> Regime:
        """The sampling regime."""
        return Regime.parse(self.sampling)

    def group_size(self, replicas: int) -> int:
        """Number of consecutive slots that share a draw."""
        share = self.batch_size // replicas
        return {"step": self.batch_size, "rank": share, "micro": self.micro_batch}[self.draw]

    def draws(self, mixture: Mixture, step: int, groups: range) -> list[Draw]:
        """Language and subtokenizer of groups of sequences in a step."""
        regime = self.regime
        return [draw(regime, self.p, mixture, self.seed, step, group) for group in groups]

    def sequences(self, replicas: int) -> int:
        """Sequences per forward pass of a rank: `micro_batch`, or a part that divides its share."""
        return gcd(self.micro_batch, self.batch_size // replicas)

    @property
    def adamw(self) -> AdamW:
        """Hyperparameters of the optimizer."""
        from modtok_cli.training.rows.table import AdamW

        return AdamW(self.beta1, self.beta2, self.eps, self.weight_decay, self.decay_params)

    @property
    def init(self) -> InitStd:
        """Scales of the initial weights."""
        return InitStd(self.init_std, self.init_projection_std, self.init_embedding_std)

    def switches(self, replicas: int) -> Execution:
        """How GPUs execute the backbone on a number of replicas; what has no effect is off."""
        overlap = replicas > 1 and self.train == "all"
        return Execution(
            overlap_grad_reduce=overlap,
            overlap_param_gather=overlap and self.distributed_optimizer,
            sequence_parallel=self.tp > 1 and self.seq_length % self.tp == 0,
            fused=True,
            transformer_engine=self.transformer_engine,
            attention=self.attention_kernel,
        )

    @property
    def step_tokens(self) -> int:
        """Tokens per step."""
        return self.batch_size * self.seq_length

    def lr_at(self, step: int) -> float:
        """Learning rate of a step (1 …).

        >>> from modtok_cli.training.resolve import resolve
        >>> resolve(RunSettings(lr=1.0, warmup=10, steps=110), gpu=False).lr_at(5)
        0.5
        """
        schedule = Schedule(
            self.schedule, self.lr, self.final_lr, self.warmup, self.decay_steps, self.lr_ends
        )
        return schedule.rate(step)

    def resumed_after(self, step: int) -> Config:
        """The configuration of a run that continues after `step`: a new `lr_steps` takes effect."""
        if self.lr_ends[-1][1] == self.lr_steps:
            return self
        if self.lr_steps <= step:
            raise UsageError(
                f"the run is at step {step:,}; expected more steps, got {self.lr_steps:,}",
                where="--set schedule.lr_steps",
            )
        before = tuple(end for end in self.lr_ends if end[0] <= step)
        return replace(self, lr_ends=(*before, (step + 1, self.lr_steps)))


def run_name(config: Config) -> str:
    """The directory below `runs`: as given, else named after sampling and preset."""
    return config.name or f"{config.sampling.replace(':', '-')}-{config.model}"


def check_ranks(config: Config, world: int) -> None:
    """Check that model and step divide evenly over the processes."""
    shape, tp = config.shape, config.tp
    if world % tp:
        raise UsageError(f"--tp {tp} needs a multiple of {tp} processes; this run has {world}")
    if shape.kv_heads % tp or shape.ffn % tp:
        most = max(
            n for n in range(1, tp) if not (world % n or shape.kv_heads % n or shape.ffn % n)
        )
        raise UsageError(
            f"{config.model} has {shape.kv_heads} key-value heads and a feed-forward size of "
            f"{shape.ffn}, not both divisible by {tp}",
            where="--tp",
            remedy=f"use --tp {most}",
        )
    replicas = world // tp
    if config.batch_size % replicas:
        raise UsageError(
            f"{config.batch_size} sequences per step are not divisible by {replicas} replicas",
            where="--batch-size",
            remedy=f"use a multiple of {replicas}",
        )


def conflicts(config: Config) -> Iterator[tuple[str, str, str]]:
    """Options that do not go together: the option to change, what is wrong, and what to do."""
    if config.batch_size % config.micro_batch:
        yield (
            "micro_batch",
            f"a batch of {config.batch_size} is not divisible into microbatches of "
            f"{config.micro_batch}",
            "use a divisor of --batch-size",
        )
    if config.final_lr > config.lr:
        yield "final_lr", f"{config.final_lr:g} is above --lr {config.lr:g}", "use a lower rate"
    if config.offload and config.update == "dense":
        yield (
            "update",
            "dense updates read and write whole tables, which --offload avoids",
            "use --set optimizer.update=sparse, or leave out --offload",
        )
    if config.transformer_engine and config.shape.own_layer:
        what = f"does not have the layers of {config.shape.architecture}"
        yield "transformer_engine", what, "leave it out"
    if config.deterministic and config.transformer_engine:
        yield "deterministic", "Transformer Engine adds in no fixed order", "leave out one of them"
    if config.deterministic and config.attention_kernel == "cudnn":
        yield "deterministic", "cuDNN's attention adds in no fixed order", "use flash attention"
    if config.train == "rows" and config.distributed_optimizer:
        yield (
            "distributed_optimizer",
            "shards the state of the backbone, which --train rows does not train",
            "leave it out",
        )
    if config.train == "rows" and config.update == "dense":
        yield (
            "update",
            "dense updates change all rows, and --train rows only new ones",
            "use --set optimizer.update=sparse",
        )
