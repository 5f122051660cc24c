"""The settings of a run, checked before anything costly starts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from modtok_cli.architectures.shape import Shape
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.records import from_json
from modtok_cli.pretrain.data.sampling import Regime, parse_mix
from modtok_cli.pretrain.presets import PRESETS, preset

DTYPES = ("bfloat16", "float32")
"""Numbers that a run computes with."""

SEEDS = 1 << 62
"""Seeds are below this: those of the tables are made from them, and fit 64 bits."""

NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]{0,99}"
"""Pattern of the names of runs and presets."""

MIX_RESTS = ("data", "uniform")
UPDATES = ("sparse", "dense")
SHORTEST = 8
"""Tokens of the shortest sequence."""

# What may change when a run goes on.
_FREE = ("steps", "eval_every", "save_every")


@dataclass(frozen=True)
class Settings:
    """What the user may say; None means that preset and machine decide.

    `batch_size` counts sequences per step over all ranks, `micro_batch` those of one
    language and subtokenizer: a step has batch_size / micro_batch slots.
    """

    sampling: str = "sub:2"
    p: float = 0.5
    mix: str | None = None
    mix_rest: str = "data"
    langs: tuple[str, ...] | None = None
    model: str | None = None
    steps: int | None = None
    batch_size: int | None = None
    micro_batch: int | None = None
    seq_length: int | None = None
    lr: float | None = None
    warmup: int | None = None
    seed: int = 0
    tp: int = 1
    update: str = "sparse"
    tied: bool = False
    recompute: bool = False
    distributed_optimizer: bool = False
    dtype: str | None = None
    eval_every: int | None = None
    save_every: int | None = None
    workers: int = 1
    errors: str = "strict"
    tensorboard: bool = False
    offload: bool = False
    offload_delay: int | None = None
    offload_moments: str | None = None
    offload_file: Path | None = None
    name: str | None = None
    data: Path = Path("data")
    tokenizer: Path = Path("tokenizer")
    runs: Path = Path("runs")


@dataclass(frozen=True)
class Config:
    """A run's settings with nothing left open. All of it decides the run's numbers.

    `shape` is the model; `model` names the preset that it came from.
    """

    sampling: str
    p: float
    mix: dict[str, float] | None
    mix_rest: str
    langs: tuple[str, ...] | None
    model: str
    shape: Shape
    steps: int
    batch_size: int
    micro_batch: int
    seq_length: int
    lr: float
    final_lr: float
    warmup: int
    seed: int
    update: str
    dtype: str
    eval_every: int
    save_every: int
    errors: str
    offload: bool = False
    offload_delay: int = 0
    offload_moments: str = "float32"

    @property
    def regime(self) -> Regime:
        """The sampling regime."""
        return Regime.parse(self.sampling)

    @property
    def tied(self) -> bool:
        """Whether input and output embeddings are one table."""
        return self.shape.tied

    @property
    def slots(self) -> int:
        """Microbatches a step."""
        return self.batch_size // self.micro_batch

    @property
    def step_tokens(self) -> int:
        """Tokens a step."""
        return self.batch_size * self.seq_length

    def rate(self, step: int) -> float:
        """Learning rate of a step (1 …): linear warm-up, then a cosine to `final_lr`.

        >>> resolve(Settings(lr=1.0, warmup=10, steps=110), gpu=False).rate(5)
        0.5
        """
        from math import cos, pi

        if step <= self.warmup:
            return self.lr * step / self.warmup
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        return self.final_lr + (self.lr - self.final_lr) * (1 + cos(pi * min(1.0, done))) / 2

    def as_json(self) -> dict[str, Any]:
        """As `config.json` keeps it."""
        return asdict(self)

    @staticmethod
    def from_json(data: Mapping[str, Any], where: str = "config") -> Config:
        """Read what `as_json` gave.

        Raises:
            ModtokError: a field is missing, not one we know, or not what a run can have.
        """
        remedy = "put it back as it was, or start another run with --name"
        check_holds_shape(data, where)
        try:
            config = from_json(Config, data, where, "config.")
        except ModtokError as error:
            raise ModtokError(error.what, where=where, remedy=remedy) from error
        wrong = _first_amiss(config)
        if wrong:
            what = f"field 'config.{wrong}' is not what a run can have"
            raise ModtokError(what, where=where, remedy=remedy)
        return config


def check_holds_shape(data: object, where: str) -> None:
    """Refuse "config" of a run that does not hold the shape of its model.

    Raises:
        ModtokError: it was written before shapes were stored.
    """
    if isinstance(data, Mapping) and "model" in data and "shape" not in data:
        raise ModtokError(
            "field 'config.shape' is missing: the run is from an older version of modtok",
            where=where,
            remedy="train the model again with this version",
        )


def stored_shape(data: Mapping[str, Any], where: str) -> Shape:
    """The model's shape in "config" of a run.

    Raises:
        ModtokError: it is missing or damaged.
        KeyError, TypeError: `data` is not "config" of a run.
    """
    check_holds_shape(data, where)
    try:
        return Shape.read_json(data["shape"], where, "config.shape.")
    except ModtokError as error:
        remedy = "put it back as it was, or choose another run"
        raise ModtokError(error.what, where=where, remedy=remedy) from error


def _first_amiss(config: Config) -> str | None:
    """The first field of a file that no `resolve` would give; None if there is none."""
    counts = ("steps", "micro_batch", "batch_size", "eval_every", "save_every")
    checks = {
        "sampling": re.fullmatch(r"none|full|joint|sub:[1-9][0-9]{0,3}", config.sampling)
        is not None,
        "p": 0 <= config.p <= 1,
        "mix_rest": config.mix_rest in MIX_RESTS,
        "model": re.fullmatch(NAME, config.model) is not None,
        **{name: getattr(config, name) >= 1 for name in counts},
        "seq_length": config.seq_length >= SHORTEST,
        "lr": config.lr > 0,
        "warmup": config.warmup >= 0,
        "seed": 0 <= config.seed < SEEDS,
        "update": config.update in UPDATES,
        "dtype": config.dtype in DTYPES,
        "offload_delay": config.offload_delay in (0, 1),
        "offload_moments": config.offload_moments in DTYPES,
    }
    found = next((name for name, sound in checks.items() if not sound), None)
    return found or ("batch_size" if config.batch_size % config.micro_batch else None)


def resolve(settings: Settings, *, gpu: bool) -> Config:
    """Fill in what was left open, and check all of it.

    Raises:
        UsageError: a value out of range, or two that do not go together.
    """
    name = settings.model or ("0.5b" if gpu else "tiny")
    chosen = preset(name)
    steps = settings.steps or chosen.steps
    batch = settings.batch_size or chosen.batch
    micro = settings.micro_batch or min(chosen.micro_batch, batch)
    rate = chosen.lr if settings.lr is None else settings.lr
    warmup = chosen.warmup if settings.warmup is None else settings.warmup
    if settings.warmup is None:
        warmup = min(warmup, max(1, steps // 10))
    if not 0 <= settings.p <= 1:
        raise UsageError(f"{settings.p:g} is no probability", where="--p", remedy="0 to 1")
    if not 0 < rate < inf:
        raise UsageError(f"{rate:g} is no learning rate", where="--lr", remedy="above 0")
    if not 0 <= settings.seed < SEEDS:
        raise UsageError(f"{settings.seed} is no seed", where="--seed", remedy="0 to 2^62 - 1")
    if batch % micro:
        raise UsageError(
            f"a batch of {batch} does not divide into microbatches of {micro}",
            where="--micro-batch",
            remedy="choose a divisor of --batch-size",
        )
    if settings.mix_rest not in MIX_RESTS:
        raise UsageError(f"'{settings.mix_rest}' is not data or uniform", where="--mix-rest")
    if settings.update not in UPDATES:
        raise UsageError(f"'{settings.update}' is not sparse or dense", where="--update")
    check_offload(settings)
    length = settings.seq_length or chosen.sequence
    if length < SHORTEST:
        raise UsageError(
            f"{length} tokens are no sequence", where="--seq-length", remedy=f"from {SHORTEST}"
        )
    regime = Regime.parse(settings.sampling)
    every = max(1, steps // 10)
    return Config(
        sampling=str(regime),
        p=settings.p,
        mix=parse_mix(settings.mix),
        mix_rest=settings.mix_rest,
        langs=settings.langs,
        model=name,
        shape=replace(chosen.shape, tied=settings.tied),
        steps=steps,
        batch_size=batch,
        micro_batch=micro,
        seq_length=length,
        lr=rate,
        final_lr=rate / 10,
        warmup=warmup,
        seed=settings.seed,
        update=settings.update,
        dtype=settings.dtype or ("bfloat16" if gpu else "float32"),
        eval_every=settings.eval_every or min(1000, every),
        save_every=settings.save_every or min(1000, every),
        errors=settings.errors,
        offload=settings.offload,
        offload_delay=_or(settings.offload_delay, 1) if settings.offload else 0,
        offload_moments=settings.offload_moments or "float32",
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def check_offload(settings: Settings) -> None:
    """Whether what is said of rows in host memory goes together.

    Raises:
        UsageError: it does not.
    """
    for name in ("offload_delay", "offload_moments", "offload_file"):
        if getattr(settings, name) is not None and not settings.offload:
            option = f"--{name.replace('_', '-')}"
            raise UsageError("is of rows in host memory", where=option, remedy="add --offload")
    if settings.offload_delay not in (None, 0, 1):
        raise UsageError(f"{settings.offload_delay} is not 0 or 1", where="--offload-delay")
    if settings.offload_moments not in (None, *DTYPES):
        raise UsageError(
            f"'{settings.offload_moments}' is not {' or '.join(DTYPES)}", where="--offload-moments"
        )
    if settings.offload and settings.update == "dense":
        raise UsageError(
            "dense updates pass over the whole tables, which --offload is there to avoid",
            where="--update",
            remedy="leave one of them out",
        )


def run_name(settings: Settings, config: Config) -> str:
    """The directory below runs/: as said, else after sampling and model.

    Raises:
        UsageError: a name that would lead elsewhere.
    """
    name = settings.name or f"{config.sampling.replace(':', '-')}-{config.model}"
    if not re.fullmatch(NAME, name) or name == "latest":
        raise UsageError(
            f"'{name}' cannot name a run",
            where="--name",
            remedy="use letters, digits, and . _ + - (not 'latest')",
        )
    return name


def check_ranks(config: Config, world: int, tp: int) -> None:
    """Whether the model and the step divide over the processes.

    Raises:
        UsageError: they do not.
    """
    shape = config.shape
    if world % tp:
        raise UsageError(f"{world} processes do not divide by {tp}", where="--tp")
    if shape.kv_heads % tp or shape.ffn % tp:
        raise UsageError(
            f"{config.model} has {shape.kv_heads} key-value heads, which {tp} shards cannot share",
            where="--tp",
            remedy="choose a divisor of it",
        )
    replicas = world // tp
    if config.slots % replicas:
        raise UsageError(
            f"{config.slots} microbatches a step cannot be dealt to {replicas} replicas",
            where="--batch-size",
            remedy=f"make --batch-size a multiple of {config.micro_batch * replicas}, "
            "or --micro-batch smaller",
        )


def resumed(then: Config, settings: Settings, where: str) -> Config:
    """The settings of a run that goes on: as they were, but for those that may change.

    Raises:
        UsageError: one is told that the run was not started with.
    """
    plain = Settings()
    told = {
        name: getattr(settings, name)
        for name in Config.__dataclass_fields__
        if hasattr(plain, name) and getattr(settings, name) != getattr(plain, name)
    }
    if "sampling" in told:
        told["sampling"] = str(Regime.parse(settings.sampling))
    if "mix" in told:
        told["mix"] = parse_mix(settings.mix)
    if settings.tied:
        told["tied"] = True
    differing = [
        name for name, value in told.items() if name not in _FREE and value != getattr(then, name)
    ]
    if differing:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in differing)
        raise UsageError(
            f"the run was started with other settings: {options}",
            where=where,
            remedy="leave them out, or start another run with --name",
        )
    return replace(then, **{name: told[name] for name in _FREE if name in told})


__all__ = [
    "PRESETS",
    "SEEDS",
    "Config",
    "Settings",
    "check_ranks",
    "resolve",
    "resumed",
    "run_name",
    "stored_shape",
]
