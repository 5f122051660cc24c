"""Settings of a new or a resumed run → its configuration: presets, defaults, `--init-from`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.model.architecture.sizes import shape_of
from modtok_cli.training.config import Config, refuse_conflicts
from modtok_cli.training.recipe import CONTINUED, PRESETS, preset
from modtok_cli.training.settings import OPTIONS, RunSettings, plain, values_of_shape
from modtok_cli.training.stages import read_stages


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
    if settings.stages and settings.schedule.steps is None:
        what = "is not given: the length of the stage before the first [[stage]]"
        raise UsageError(what, where=OPTIONS["steps"].flag, remedy="set steps of [schedule]")
    if source is not None and settings.architecture.model is None:
        settings = settings.changed(model=source.name)
    model = settings.architecture.model or OPTIONS["model"].default_for(SimpleNamespace(gpu=gpu))
    usual = CONTINUED if source and model not in PRESETS else preset(model)
    if source is not None:
        _check_origin(settings, source)
        usual = {**usual, **values_of_shape(source.shape)}
    resolved = _Resolved(settings, model, usual, gpu)
    values = {name: getattr(resolved, name) for name in OPTIONS}
    if values["transformer_engine"] and not gpu:
        where = OPTIONS["transformer_engine"].flag
        raise UsageError("needs a GPU", where=where, remedy="leave it out")
    changes = {name: values[name] for name, option in OPTIONS.items() if option.of_shape}
    shape = shape_of(changes) if source is None else replace(source.shape, **changes)
    stages = read_stages(settings.stages or (), OPTIONS)
    config = Config(**values, stages=stages, shape=shape)
    refuse_conflicts(config)
    return config


@dataclass
class _Resolved:
    """The values of options: each is an attribute, which is found when it is asked for."""

    settings: RunSettings
    preset: str
    usual: Mapping[str, Any]
    gpu: bool

    def __getattr__(self, name: str) -> Any:
        option, value = OPTIONS[name], self.settings[name]
        if option.needs and value is not None and not getattr(self, option.needs):
            needed = OPTIONS[option.needs].flag
            raise UsageError(f"needs {needed}", where=option.flag, remedy=f"add {needed}")
        if value is None and name in self.usual:
            value = self.usual[name]
            value = value if option.adapt is None else option.adapt(self, value)
        if value is None:
            value = option.default_for(self)
        if value is None and not option.optional:
            raise UsageError(f"preset '{self.preset}' does not set it", where=option.flag)
        setattr(self, name, value)
        return value


def _check_origin(settings: RunSettings, source: Origin) -> None:
    """Refuse options of the model that differ from `--init-from`."""
    fixed = {"model": source.name, **values_of_shape(source.shape)}
    for name, value in fixed.items():
        wanted = settings[name]
        if wanted is not None and wanted != value:
            raise UsageError(
                f"is {plain(wanted)}, the model of --init-from has {plain(value)}",
                where=OPTIONS[name].flag,
                remedy="leave it out",
            )


def usual_sources(settings: RunSettings, config: Config) -> dict[str, str]:
    """Where the options that `settings` leave open have their values from, by name.

    Values of the preset, or of the model of --init-from; the others are defaults.
    """
    if config.init.init_from is not None:
        names = {"model", *(name for name, option in OPTIONS.items() if option.of_shape)}
        return {name: "--init-from" for name in names if settings[name] is None}
    usual = preset(config.architecture.model)
    return {name: f"preset {config.architecture.model}" for name in usual if settings[name] is None}


def resumed(then: Config, settings: RunSettings, where: str, step: int) -> tuple[Config, list[str]]:
    """The configuration of a run that is resumed after `step`: as stored, except for options and
    stages given now.

    Returns:
        The configuration, and a sentence for every option that changes.
    """
    options = settings.given()
    changes = {name: value for name, value in options.items() if value != then[name]}
    fixed = [OPTIONS[n].flag for n in changes if OPTIONS[n].section and not OPTIONS[n].changeable]
    if fixed:
        raise UsageError(
            f"the run was started with other settings: {', '.join(fixed)}",
            where=where,
            remedy="leave them out, or start another run with --name",
        )
    if then.sampling.max_epochs is not None and "steps" in changes:
        what = "cannot change: the mixture follows from max_epochs and the number of steps"
        raise UsageError(what, where=OPTIONS["steps"].flag, remedy="add a [[stage]]")
    notes = [
        f"{OPTIONS[name].flag} is now {plain(value)}, was {plain(then[name])}"
        for name, value in changes.items()
        if OPTIONS[name].section
    ]
    if then.stages and settings.stages is not None and not settings.stages:
        what = f"has no [[stage]], and the run has {len(then.stages)}"
        remedy = "give all stages of the run, and new ones after them, or leave it out"
        raise UsageError(what, where="--config", remedy=remedy)
    stages = read_stages(then.stages if settings.stages is None else settings.stages, OPTIONS)
    config = then.changed(**{"runs": OPTIONS["runs"].default, **changes}, stages=stages)
    refuse_conflicts(config)
    notes += _changed_stages(then, config, step)
    schedule = config.schedule
    if (
        "steps" in changes
        and schedule.schedule != "constant"
        and schedule.steps > schedule.lr_steps
    ):
        notes.append(
            f"the learning rate stays at {schedule.final_lr:g} after step {schedule.lr_steps:,}, "
            "where its schedule ends; a [[stage]] can have another"
        )
    return config, notes


def _changed_stages(then: Config, now: Config, step: int) -> list[str]:
    """A sentence for each stage after the first that changes.

    Raises:
        UsageError: a stage that has begun after `step` steps would change.
    """
    notes, at = [], f"the run is at step {step:,}"
    begun = sum(period.steps.start <= step for period in then.periods[1:])
    for index in range(max(len(then.stages), len(now.stages))):
        number = index + 2
        if index >= len(now.stages):
            if index < begun:
                what = f"stage {number} is missing, which has begun: {at}"
                remedy = "give all stages of the run, and new ones after them"
                raise UsageError(what, where="[[stage]]", remedy=remedy)
            notes.append(f"stage {number} is removed")
            continue
        new = now.periods[index + 1]
        old = then.stages[index] if index < len(then.stages) else None
        key = new.table.differs(old)
        if index < begun and new.steps.start != then.periods[index + 1].steps.start:
            what = f"stage 1 has ended and its length cannot change: {at}"
            raise UsageError(what, where=OPTIONS["steps"].flag, remedy="add a [[stage]] at the end")
        if index < begun and key is not None:
            what = f"stage {number} has begun and cannot change: {at}"
            remedy = "restore it, and add other stages after it"
            raise UsageError(what, where=new.table.at(key), remedy=remedy)
        if index >= begun and new.steps.start <= step:
            what = f"stage {number} would begin at step {new.steps.start:,}, and {at}"
            raise UsageError(what, where=new.table.at(), remedy="use more --steps")
        if key is not None:
            words = ", ".join(f"{name} = {value}" for name, value in new.table.as_json().items())
            notes.append(f"stage {number}, from step {new.steps.start:,} on, is now {words}")
    return notes
