"""Settings of a new or a resumed run → its configuration: presets, defaults, `--init-from`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

from modtok_cli.architectures.shape import Shape
from modtok_cli.architectures.sizes import shape_of
from modtok_cli.base.errors import UsageError
from modtok_cli.training.config import Config, conflicts
from modtok_cli.training.recipe import PRESETS, continued, preset
from modtok_cli.training.settings import OPTIONS, RunSettings, plain, values_of_shape


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
        usual = {**usual, **values_of_shape(source.shape)}
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
    fixed = {"model": source.name, **values_of_shape(source.shape)}
    for name, value in fixed.items():
        wanted = getattr(settings, name)
        if wanted is not None and wanted != value:
            raise UsageError(
                f"is {plain(wanted)}, the model of --init-from has {plain(value)}",
                where=OPTIONS[name].flag,
                remedy="leave it out",
            )


def _refuse_conflicts(config: Config) -> None:
    for name, what, remedy in conflicts(config):
        raise UsageError(what, where=OPTIONS[name].flag, remedy=remedy)


def usual_sources(settings: RunSettings, config: Config) -> dict[str, str]:
    """Where the options that `settings` leave open have their values from, by name.

    Those of the preset, or of the model of --init-from; the others are defaults.
    """
    if config.init_from is not None:
        names = {"model", *(name for name, option in OPTIONS.items() if option.of_shape)}
        return {name: "--init-from" for name in names if getattr(settings, name) is None}
    usual = preset(config.model).options
    return {name: f"preset {config.model}" for name in usual if getattr(settings, name) is None}


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
