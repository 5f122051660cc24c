"""Architectures by name: the modules of `families`, and entry points of other packages."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from modtok_cli.base.errors import ModtokError, UsageError
from modtok_cli.base.plugins import Plugins
from modtok_cli.base.records import from_json
from modtok_cli.model.architecture.shape import Shape


def _as_shape(name: str, found: Any) -> type[Shape]:
    if not (isinstance(found, type) and issubclass(found, Shape)):
        raise TypeError(f"expected a Shape, got {found!r}")
    return found


_FAMILIES = Plugins(
    "modtok.architectures", _as_shape, "modtok_cli.model.architecture.families", "ARCHITECTURE"
)

BY_SWITCHES = ("llama", "qwen2", "qwen3")
"""Architectures that switches such as `qk_norm` choose: at most one for each set of switches."""


def architectures() -> tuple[str, ...]:
    """Names of all architectures, ascending.

    >>> "llama" in architectures()
    True
    """
    return tuple(_FAMILIES.all())


def _family(name: object) -> type[Shape] | None:
    """The `Shape` of that name; other packages are searched if this one does not have it."""
    return _FAMILIES.load(name) if isinstance(name, str) else None


def architecture(name: str) -> type[Shape]:
    """The `Shape` of a model family.

    >>> architecture("llama").__name__
    'Llama'
    """
    family = _family(name)
    if family is None:
        raise UsageError(
            f"architecture '{name}' is not supported",
            remedy=f"choose from {', '.join(architectures())}",
        )
    return family


def with_switches(shape: Shape) -> Shape:
    """The shape as it is, or in the architecture of `BY_SWITCHES` with its switches.

    >>> from dataclasses import replace
    >>> from modtok_cli.model.architecture.families.llama import llama
    >>> with_switches(replace(llama(4, 128, 32, 352), qk_norm=True)).architecture
    'qwen3'
    """
    values = {each.name: getattr(shape, each.name) for each in fields(shape)}
    for name in (shape.architecture, *BY_SWITCHES):
        kind = architecture(name)
        if values.keys() <= {each.name for each in fields(kind)}:
            other = kind(**values)
            if other.invalid_field() is None:
                return other
    return shape


def read_shape(data: object, where: str, prefix: str = "shape.") -> Shape:
    """The shape that `Shape.as_json` wrote."""
    name = data.get("architecture") if isinstance(data, Mapping) else None
    family = _family(name)
    if not isinstance(data, Mapping) or family is None:
        known = ", ".join(architectures())
        raise ModtokError(
            f"field '{prefix}architecture' is {name!r}, expected one of {known}", where=where
        )
    rest = {key: value for key, value in data.items() if key != "architecture"}
    shape = from_json(family, rest, where, prefix)
    invalid = shape.invalid_field()
    if invalid:
        raise ModtokError(f"field '{prefix}{invalid}' is out of range", where=where)
    return shape


def shape_of_hf(config: Mapping[str, Any], where: str) -> Shape:
    """The shape of a `config.json` of transformers, by its "model_type"."""
    family = _family(config.get("model_type"))
    if family is None:
        raise UsageError(
            f"architecture '{config.get('model_type')}' is not supported",
            where=where,
            remedy=f"choose a model of {', '.join(architectures())}",
        )
    if config.get("quantization_config"):
        raise UsageError(
            "the weights are quantized", where=where, remedy="choose a model in bfloat16"
        )
    try:
        return family.of_hf(config)
    except ModtokError as error:
        raise ModtokError(error.what, where=where) from error
