"""The settings of a training run: the options of `sections`, in one object."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, get_type_hints

from modtok_cli.base.files import path_text
from modtok_cli.base.option import Declared, option, options_of
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.training import option_values as values
from modtok_cli.training.sections import (
    ArchitectureSettings,
    DataSettings,
    EvaluationSettings,
    InitSettings,
    OptimizerSettings,
    ParallelismSettings,
    PrecisionSettings,
    SamplingSettings,
    ScheduleSettings,
)
from modtok_cli.training.stages import StageTable, read_stages


@dataclass(frozen=True, init=False)
class RunSettings(Declared):
    """Options of a run, which have their names in a call, and stand in groups as in a recipe.

    Options that are not given are None until `resolve.resolve`. `stages` follow the `steps` that
    all other options are for, in tables such as {"steps": 100, "lr": 1e-4}; None keeps a run's.

    >>> settings = RunSettings(langs="en,fi", steps=300)
    >>> settings.schedule.steps, settings["langs"], settings.changed(steps=9)["steps"]
    (300, ('en', 'fi'), 9)
    """

    sampling: SamplingSettings
    data: DataSettings
    architecture: ArchitectureSettings
    parallelism: ParallelismSettings
    schedule: ScheduleSettings
    init: InitSettings
    optimizer: OptimizerSettings
    precision: PrecisionSettings
    evaluation: EvaluationSettings
    profile: int | None = option(
        "Write a torch profiler trace of N steps. It is profile.json.gz of the run.",
        metavar="N",
        low=1,
        high=1 << 48,
    )
    name: str | None = option(
        "Directory below --runs. Default: named after sampling and preset.",
        metavar="NAME",
        parse=values.run_name,
    )
    runs: Path = option("Directory of all runs.", default=Path("runs"), metavar="DIR")
    stages: Sequence[StageTable | Mapping[str, Any]] | None = None

    def __init__(self, **options: Any) -> None:
        """Check every option that is given, and the stages.

        Raises:
            UsageError: a value of the wrong type or out of range; names the option.
        """
        vars(self).update({group: kind() for group, kind in _GROUPS.items()})
        vars(self).update(profile=None, name=None, runs=None, stages=None)
        vars(self).update(vars(self.changed(**options)))

    def changed(self, **options: Any) -> Self:
        """A copy with other values of some options, which are checked."""
        copied, groups = copy(self), defaultdict[str, dict[str, Any]](dict)
        for name, value in options.items():
            if name in _GROUP_OF:
                groups[_GROUP_OF[name]][name] = value
            elif name in _GROUPS or name not in vars(self):
                raise TypeError(f"{type(self).__name__} has no option {name!r}")
            elif name == "stages" and value:
                vars(copied)[name] = read_stages(value, OPTIONS)
            else:
                vars(copied)[name] = value
        for group, given in groups.items():
            vars(copied)[group] = getattr(self, group).changed(**given)
        copied.__post_init__()
        return copied

    def __getitem__(self, name: str) -> Any:
        """The value of an option by its name."""
        return getattr(getattr(self, _GROUP_OF[name]) if name in _GROUP_OF else self, name)


_GROUPS = {
    name: kind
    for name, kind in get_type_hints(RunSettings).items()
    if isinstance(kind, type) and issubclass(kind, Declared)
}
_GROUP_OF = {name: group for group, kind in _GROUPS.items() for name in options_of(kind)}
OPTIONS = options_of(RunSettings)
"""The options by name, in order."""

SECTIONS: dict[str, list[str]] = {}
"""The tables of a recipe, with the names of their options, in order."""
for _name, _option in OPTIONS.items():
    if _option.section:
        SECTIONS.setdefault(_option.section, []).append(_name)

DTYPES = OPTIONS["dtype"].choices
"""Dtypes that a run computes with."""


def plain(value: Any) -> Any:
    """A value as JSON; paths that are not UTF-8 with escapes."""
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, Path):
        return path_text(value)
    return value


def values_of_shape(shape: Shape) -> dict[str, Any]:
    """The options of the model, by name, as the shape has them."""
    return {name: getattr(shape, name) for name, option in OPTIONS.items() if option.of_shape}
