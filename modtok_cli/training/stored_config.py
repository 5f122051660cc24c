"""The configuration in a run's `config.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.model.architecture.registry import read_shape
from modtok_cli.model.architecture.shape import Shape
from modtok_cli.training.config import Config, refuse_conflicts
from modtok_cli.training.settings import OPTIONS, SECTIONS, plain, values_of_shape
from modtok_cli.training.stages import read_stages

_RESTORE = "restore the file, or start another run with --name"


def config_as_json(config: Config) -> dict[str, Any]:
    """The options as `config.json` stores them."""
    options = {
        section: {name: plain(config[name]) for name in names}
        for section, names in _stored().items()
    }
    stages = [stage.as_json() for stage in config.stages]
    return {**options, "shape": config.shape.as_json(), "stages": stages}


def config_from_json(data: object, where: str = "config") -> Config:
    """Read what `config_as_json` returned; options that are not stored are None.

    Raises:
        ModtokError: a field is missing, unknown, of the wrong type or out of range.
    """
    if not isinstance(data, Mapping):
        raise ModtokError("field 'config' is not an object", where=where, remedy=_RESTORE)
    shape = stored_shape(data, where)
    values: dict[str, Any] = {}
    tables = _stored()
    others = [name for name in data if name not in (*tables, "shape", "stages")]
    for section in [*tables, *others]:
        table, names = data.get(section), tables.get(section, [])
        if not isinstance(table, Mapping):
            raise _invalid(section, "is not a table of options", where)
        for name in [*names, *table]:
            option = OPTIONS.get(name)
            if option is None or name not in names or name not in table:
                what = "is missing" if name in names else "is unknown"
                raise _invalid(f"{section}.{name}", what, where)
            try:
                if not (table[name] is None and option.optional):
                    values[name] = option.read(table[name])
            except ValueError as error:
                raise _invalid(f"{section}.{name}", str(error), where) from error
    try:
        stages = read_stages(data.get("stages", ()), OPTIONS)
        values |= {"stages": stages, **values_of_shape(shape)}
        config = Config(**values, shape=shape)
        refuse_conflicts(config)
    except TypeError as error:
        raise _invalid("stages", "expected a list of tables", where) from error
    except UsageError as error:
        found = next((each for each in OPTIONS.values() if each.flag == error.where), None)
        what = error.what if found else f"{error.where}: {error.what}"
        place = f"{found.section}.{found.name}" if found else "stages"
        raise _invalid(place, what, where) from error
    return config


def at_step(content: Mapping[str, Any], step: int, where: str) -> dict[str, Any]:
    """The content of config.json as it holds for a checkpoint: with what stages had changed.

    "mixture" has every language of these stages. The learning rate is of the first stage.

    Raises:
        ModtokError: the configuration of a run of several stages is damaged.
    """
    if not content.get("stages"):
        return dict(content)
    config = config_from_json(content["config"], where)
    begun = [one for one in config.periods if one.number == 1 or one.steps.start <= step]
    options = config_as_json(begun[-1].config.changed(stages=()))
    mixture = dict(content["mixture"])
    for text in content["stages"][: len(begun) - 1]:
        mixture |= text["mixture"]
    return {**content, "config": options, "mixture": mixture, "stages": []}


def stored_shape(data: object, where: str) -> Shape:
    """The model's shape in "config" of a run.

    Raises:
        ModtokError: it is missing or damaged.
        KeyError, TypeError: `data` is not "config" of a run.
    """
    if isinstance(data, Mapping) and "shape" not in data:
        raise _invalid("shape", "is missing", where)
    try:
        return read_shape(data["shape"], where, "config.shape.")  # type: ignore[index]
    except ModtokError as error:
        raise ModtokError(error.what, where=where, remedy=_RESTORE) from error


def _stored() -> dict[str, list[str]]:
    """The options in "config" of config.json by section; fields of the shape are in "shape"."""
    return {
        section: [name for name in names if not OPTIONS[name].of_shape]
        for section, names in SECTIONS.items()
    }


def _invalid(name: str, what: str, where: str) -> ModtokError:
    return ModtokError(f"field 'config.{name}': {what}", where=where, remedy=_RESTORE)
