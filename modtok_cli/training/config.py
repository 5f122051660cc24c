"""The configuration of a run: settings with every option resolved, checked and stored."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil, gcd
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from modtok_cli.architectures.registry import read_shape
from modtok_cli.architectures.shape import Shape
from modtok_cli.architectures.sizes import shape_of
from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.option import Option
from modtok_cli.training.data.sampling import Draw, Mixture, Regime, draw
from modtok_cli.training.model.execution import Execution, InitStd
from modtok_cli.training.recipe import PRESETS, continued, preset
from modtok_cli.training.schedule import Schedule
from modtok_cli.training.settings import OPTIONS, RunSettings, plain

if TYPE_CHECKING:
    from modtok_cli.training.rows.table import AdamW

DTYPES = OPTIONS["dtype"].choices
"""Dtypes that a run computes with."""

# Options of older runs.
_REMOVED = (
    "tensorboard", "execution", "overlap_grad_reduce", "overlap_param_gather", "sequence_parallel",
    "fuse_swiglu", "fuse_rope", "fuse_grad_accumulation", "fp8",
)  # fmt: skip
_RESTORE = "restore the file, or start another run with --name"
# Evaluation takes at most this share of training's time. It has no backward pass, which is two
# thirds of training.
_SHARE, _FORWARD = 0.1, 1 / 3
# Of text in a language that the tokenizer has; tokenizers of 24,000 tokens take 4 to 6.
_TOKEN_BYTES = 2
# Bits per byte of less text say little: rather evaluate less often.
_LEAST_BYTES = 4096


@dataclass(frozen=True, kw_only=True)
class Config(RunSettings):
    """Settings in which every option has its value. `resolve` and `from_json` make them.

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
        )

    @property
    def step_tokens(self) -> int:
        """Tokens per step."""
        return self.batch_size * self.seq_length

    def lr_at(self, step: int) -> float:
        """Learning rate of a step (1 …).

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

    def as_json(self) -> dict[str, Any]:
        """The options as `config.json` stores them."""
        options = {name: plain(getattr(self, name)) for name in _stored()}
        return {**options, "lr_ends": self.lr_ends, "shape": self.shape.as_json()}

    @staticmethod
    def from_json(data: object, where: str = "config") -> Config:
        """Read what `as_json` returned; options that are not stored are None.

        Raises:
            ModtokError: a field is missing, unknown, of the wrong type or out of range.
        """
        if not isinstance(data, Mapping):
            raise ModtokError("field 'config' is not an object", where=where, remedy=_RESTORE)
        shape = stored_shape(data, where)
        if "tensorboard" in data:  # the run is older than --log
            data = {**data, "log": ["tensorboard"] if data["tensorboard"] else None}
        data = {name: value for name, value in data.items() if name not in _REMOVED}
        values: dict[str, Any] = {}
        for name, option in _stored().items():
            if name not in data:  # the run is older than the option
                values[name] = _default_of_older(name, {**_of_shape(shape), **values}, where)
                continue
            value = data[name]
            if value is None and option.optional:
                continue
            try:
                values[name] = option.read(value)
            except ValueError as error:
                raise _invalid(name, str(error), where) from error
        for name in data:
            if name not in _stored() and name not in ("shape", "lr_ends"):
                raise _invalid(name, "is unknown", where)
        ends = _read_ends(data.get("lr_ends"), where)
        config = Config(**values, **_of_shape(shape), shape=shape, lr_ends=ends)
        for name, what, _ in _conflicts(config):
            raise _invalid(name, what, where)
        return config


def stored_shape(data: object, where: str) -> Shape:
    """The model's shape in "config" of a run.

    Raises:
        ModtokError: it is missing or damaged.
        KeyError, TypeError: `data` is not "config" of a run.
    """
    if isinstance(data, Mapping) and "model" in data and "shape" not in data:
        raise ModtokError(
            "field 'config.shape' is missing: the run is from an older version of modtok",
            where=where,
            remedy="train the model again with this version",
        )
    try:
        return read_shape(data["shape"], where, "config.shape.")  # type: ignore[index]
    except ModtokError as error:
        raise ModtokError(error.what, where=where, remedy=_RESTORE) from error


def _of_shape(shape: Shape) -> dict[str, Any]:
    return {name: getattr(shape, name) for name, option in OPTIONS.items() if option.of_shape}


def _default_of_older(name: str, values: Mapping[str, Any], where: str) -> Any:
    """The default of an option that the stored options `values` do not include."""
    try:
        return OPTIONS[name].default_for(SimpleNamespace(**values))
    except AttributeError as error:
        raise _invalid(name, "is missing", where) from error


def _stored() -> dict[str, Any]:
    """The options in "config" of config.json; fields of the shape are there as "shape"."""
    return {n: o for n, o in OPTIONS.items() if o.section and not o.of_shape}


def _read_ends(data: object, where: str) -> tuple[tuple[int, int], ...]:
    """The history of the schedule's length; steps ascend from 1."""
    try:
        ends = [(first, last) for first, last in data]  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        ends = []
    firsts = [first for first, _ in ends]
    steps = [step for pair in ends for step in pair]
    if firsts[:1] != [1] or any(type(step) is not int for step in steps):
        raise _invalid("lr_ends", "expected pairs of steps", where)
    if sorted(set(firsts)) != firsts:
        raise _invalid("lr_ends", "expected ascending steps", where)
    return tuple(ends)


def _invalid(name: str, what: str, where: str) -> ModtokError:
    return ModtokError(f"field 'config.{name}': {what}", where=where, remedy=_RESTORE)


@dataclass(frozen=True)
class Origin:
    """The model that initial weights come from: its name, and its shape."""

    name: str
    shape: Shape


def resolve(settings: RunSettings, *, gpu: bool, source: Origin | None = None) -> Config:
    """Fill in the options that are not given, and check the combination.

    An option has the value of `settings`, else of the preset, else its default. `source` is the
    model that initial weights come from: the run's model has its shape.

    Raises:
        UsageError: two options conflict.
    """
    resolved = SimpleNamespace(gpu=gpu)
    if source is not None and settings.model is None:
        settings = replace(settings, model=source.name)
    model = settings.model or OPTIONS["model"].default_for(resolved)
    usual = continued(source.shape) if source and model not in PRESETS else preset(model).options
    if source is not None:
        _check_origin(settings, source)
        usual = {**usual, **_of_shape(source.shape)}
    for name, option in OPTIONS.items():
        value = getattr(settings, name)
        if option.needs and value is not None and not getattr(resolved, option.needs):
            needed = OPTIONS[option.needs].flag
            raise UsageError(f"needs {needed}", where=option.flag, remedy=f"add {needed}")
        if value is None and name in usual:
            value = usual[name] if option.adapt is None else option.adapt(resolved, usual[name])
        if value is None:
            value = option.default_for(resolved)
        if value is None and not option.optional:
            raise UsageError(f"preset '{model}' does not set it", where=option.flag)
        setattr(resolved, name, value)
    if resolved.transformer_engine and not gpu:
        where = OPTIONS["transformer_engine"].flag
        raise UsageError("needs a GPU", where=where, remedy="leave it out")
    values = {name: getattr(resolved, name) for name in OPTIONS}
    changes = {name: values[name] for name, option in OPTIONS.items() if option.of_shape}
    shape = shape_of(changes) if source is None else replace(source.shape, **changes)
    invalid = shape.invalid_field()
    if invalid:
        flag = OPTIONS[invalid].flag if invalid in OPTIONS else f"field '{invalid}'"
        raise UsageError("does not fit the other sizes of the model", where=flag)
    config = Config(**values, shape=shape, lr_ends=((1, values["lr_steps"]),))
    _refuse_conflicts(config)
    return config


def _check_origin(settings: RunSettings, source: Origin) -> None:
    """Refuse options of the model that differ from those of `--init-from`."""
    fixed = {"model": source.name, **_of_shape(source.shape)}
    for name, value in fixed.items():
        wanted = getattr(settings, name)
        if wanted is not None and wanted != value:
            raise UsageError(
                f"is {plain(wanted)}, the model of --init-from has {plain(value)}",
                where=OPTIONS[name].flag,
                remedy="leave it out",
            )


def _refuse_conflicts(config: Config) -> None:
    for name, what, remedy in _conflicts(config):
        raise UsageError(what, where=OPTIONS[name].flag, remedy=remedy)


def _conflicts(config: Config) -> Iterator[tuple[str, str, str]]:
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


def usual_sources(settings: RunSettings, config: Config) -> dict[str, str]:
    """Where the options that `settings` leave open have their values from, by name.

    Those of the preset, or of the model of --init-from; the others are defaults.
    """
    if config.init_from is not None:
        names = {"model", *(name for name, option in OPTIONS.items() if option.of_shape)}
        return {name: "--init-from" for name in names if getattr(settings, name) is None}
    usual = preset(config.model).options
    return {name: f"preset {config.model}" for name in usual if getattr(settings, name) is None}


def run_name(config: Config) -> str:
    """The directory below `runs`: as given, else named after sampling and preset."""
    return config.name or f"{config.sampling.replace(':', '-')}-{config.model}"


def check_ranks(config: Config, world: int) -> None:
    """Check that model and step divide evenly over the processes."""
    shape, tp = config.shape, config.tp
    if world % tp:
        raise UsageError(f"--tp {tp} needs a multiple of {tp} processes; this run has {world}")
    if shape.kv_heads % tp or shape.ffn % tp:
        raise UsageError(
            f"{config.model} has {shape.kv_heads} key-value heads and a feed-forward size of "
            f"{shape.ffn}, not both divisible by {tp}",
            where="--tp",
            remedy="use a divisor of both",
        )
    replicas = world // tp
    if config.batch_size % replicas:
        raise UsageError(
            f"{config.batch_size} sequences per step are not divisible by {replicas} replicas",
            where="--batch-size",
            remedy=f"use a multiple of {replicas}",
        )


def resumed(then: Config, settings: RunSettings, where: str) -> tuple[Config, list[str]]:
    """The configuration of a resumed run: as stored, except for options given now.

    Returns:
        The configuration, and a sentence for every option that changes.
    """
    options = settings.given()
    changes = {name: value for name, value in options.items() if value != getattr(then, name)}
    fixed = [OPTIONS[n].flag for n in changes if OPTIONS[n].section and not OPTIONS[n].changeable]
    if fixed:
        raise UsageError(
            f"the run was started with other settings: {', '.join(fixed)}",
            where=where,
            remedy="leave them out, or start another run with --name",
        )
    notes = [
        f"{OPTIONS[name].flag} is now {plain(value)}, was {plain(getattr(then, name))}"
        for name, value in changes.items()
        if OPTIONS[name].section
    ]
    config = replace(then, **{"runs": OPTIONS["runs"].default, **changes})
    _refuse_conflicts(config)
    if "steps" in changes and config.steps > config.lr_steps and config.schedule != "constant":
        notes.append(
            f"the learning rate stays at {config.final_lr:g} after step {config.lr_steps:,}, where "
            "its schedule ends; --set schedule.lr_steps extends the schedule"
        )
    return config, notes


def fitted(config: Config, settings: RunSettings, languages: int) -> Config:
    """The configuration of a new run, with what `settings` leave open fitted to its languages.

    A run of 12 steps of 2,048 tokens in 21 languages may evaluate 7,372 tokens: once, 351 tokens
    of each language. Nothing is measured, so that equal runs evaluate equally.
    """
    if settings.sampling is None:
        config = replace(config, sampling=str(Regime.usual(languages)))
    trained = config.steps * config.step_tokens
    most = _SHARE / _FORWARD * trained / _texts(config, languages)  # tokens of one text
    if settings.eval_every is None:
        least = settings.eval_bytes or min(config.eval_bytes, _LEAST_BYTES)
        times = max(1, int(most / _tokens(config, least)))
        config = replace(config, eval_every=max(config.eval_every, ceil(config.steps / times)))
    if settings.eval_bytes is None:
        tokens = max(config.seq_length, int(most / _times(config)))
        config = replace(config, eval_bytes=min(config.eval_bytes, tokens * _TOKEN_BYTES))
    return config


def evaluation_plan(config: Config, languages: int) -> str:
    """How often a run evaluates, how much, and what that costs, in words."""
    texts, times = _texts(config, languages), _times(config)
    tokens = times * texts * _tokens(config, config.eval_bytes)
    share = _FORWARD * tokens / (config.steps * config.step_tokens)
    each = f"up to {config.eval_bytes:,} bytes of each of {texts} texts"
    return f"{times:,} evaluations of {each}, about {share:.0%} of training's time"


def _texts(config: Config, languages: int) -> int:
    return languages * (1 + len(config.valid or ()))


def _times(config: Config) -> int:
    return ceil(config.steps / config.eval_every)


def _tokens(config: Config, size: int) -> float:
    """Tokens of a text of `size` bytes; a sequence at least."""
    return max(config.seq_length, size / _TOKEN_BYTES)


def command_line(config: Config, name: str, *, gpu: bool) -> str:
    """`modtok pretrain` with the fewest options that give `config`, and the sampling regime.

    Quoted for a shell. Options may have come from a recipe or modtok.toml.
    `name`: that of the run's directory. `gpu`: as in `resolve`.
    """
    source = Origin(config.model, config.shape) if config.init_from is not None else None
    settings = RunSettings(name=name, init_from=config.init_from)
    chosen = {"init_from": config.init_from} if source else {"model": config.model}
    if source is None:
        settings = replace(settings, model=config.model)
    usual = resolve(settings, gpu=gpu, source=source)
    for option, value in config.given().items():
        known = option in ("name", "model", "init_from", "profile")
        if known or (value == getattr(usual, option) and option != "sampling"):
            continue
        chosen[option] = value
        settings = replace(settings, **{option: value})
        # Other defaults may follow from it; it may conflict with an option that is not set yet.
        with suppress(UsageError):
            usual = resolve(settings, gpu=gpu, source=source)
    words = ["modtok", "pretrain"]
    for option, value in chosen.items():
        words += _words(OPTIONS[option], value)
    return shlex.join([*words, "--name", name])


def _words(option: Option, value: Any) -> list[str]:
    flag = option.flag
    if isinstance(value, bool):
        if option.recipe_only:
            return ["--set", f"{option.section}.{option.name}={str(value).lower()}"]
        return [flag if value else f"--no-{flag[2:]}"]
    value = plain(value)
    if isinstance(value, Mapping):
        value = ",".join(f"{key}={each}" for key, each in value.items()) or "none"
    elif isinstance(value, tuple):
        value = ",".join(value) or "none"
    if option.recipe_only:
        return ["--set", f"{option.section}.{option.name}={value}"]
    return [flag, str(value)]
