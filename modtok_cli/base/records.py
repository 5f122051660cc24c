"""Dataclasses from parsed JSON, with type checks.

A file can contain anything, by damage or by intent, and a constructor does not check.
"""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from modtok_cli.base.errors import ModtokError

Record = TypeVar("Record")

_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    Path: "text",
}


def from_json(kind: type[Record], data: object, where: str, prefix: str = "") -> Record:
    """Convert parsed JSON to the dataclass `kind`.

    Fields are of int, float, str, bool, Path, Any, tuples and dicts of these, or further
    dataclasses; `X | None` as well. Numbers are finite, and whole ones fit 64 bits.

    Raises:
        ModtokError: `data` is no object, or lacks a field, has one too many or of another
            type; names `where` and the field.
    """
    if not isinstance(data, Mapping):
        raise _invalid(where, prefix.rstrip("."), "is not an object")
    hints = get_type_hints(kind)
    fields = [field for field in dataclasses.fields(kind) if field.init]  # type: ignore[arg-type]
    names = [field.name for field in fields]
    for name in data:
        if name not in names:
            raise _invalid(where, f"{prefix}{name}", "is not known")
    values = {}
    for field in fields:
        if field.name in data:
            path = f"{prefix}{field.name}"
            values[field.name] = _value(hints[field.name], data[field.name], where, path)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise _invalid(where, f"{prefix}{field.name}", "is missing")
    return kind(**values)


def _value(kind: Any, value: Any, where: str, path: str) -> Any:
    if kind is Any:
        return value
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        if value is None and NoneType in parts:
            return None
        (kind,) = (part for part in parts if part is not NoneType)
        return _value(kind, value, where, path)
    if origin is Literal:
        if value not in parts:
            raise _invalid(where, path, f"is not one of {', '.join(map(str, parts))}")
        return value
    if kind is Path and isinstance(value, str):
        return Path(value)
    if dataclasses.is_dataclass(kind):
        return from_json(kind, value, where, f"{path}.")  # type: ignore[arg-type]
    if origin in (tuple, list):
        if not isinstance(value, list | tuple):
            raise _invalid(where, path, "is not a list")
        if origin is list or parts[-1] is Ellipsis:
            kinds = [parts[0]] * len(value)
        elif len(parts) == len(value):
            kinds = list(parts)
        else:
            raise _invalid(where, path, f"has {len(value)} entries, not {len(parts)}")
        items = [
            _value(each, item, where, f"{path}[{index}]")
            for index, (each, item) in enumerate(zip(kinds, value, strict=True))
        ]
        return tuple(items) if origin is tuple else items
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise _invalid(where, path, "is not an object")
        return {key: _value(parts[1], item, where, f"{path}.{key}") for key, item in value.items()}
    fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
    # In Python a bool is an int; in JSON it is not.
    if not fits or (isinstance(value, bool) and kind is not bool):
        raise _invalid(where, path, f"is not {_WORDS[kind]}")
    if kind is int and not -(2**63) <= value < 2**63:
        raise _invalid(where, path, "is out of range")
    if kind is float and not math.isfinite(value):
        raise _invalid(where, path, "is not a finite number")
    return value


def _invalid(where: str, path: str, what: str) -> ModtokError:
    return ModtokError(f"field '{path}' {what}" if path else what, where=where)
