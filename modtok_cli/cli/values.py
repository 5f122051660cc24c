"""Values of options that are what they should be already, without a validator.

typer hands every value to pydantic, whose import takes as long as that of numpy. Here text that
is to be text, an existing choice, a plain integer in range or a path is taken as it is. Everything
else goes to typer, which converts it or says what is wrong with it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

_INTEGER = re.compile(r"-?[0-9]{1,18}")
OTHER = object()
"""Not a value that can be taken as it is."""


def without_validator(param: Any) -> None:
    """Let the parameter of a command take values as `as_given` says; else nothing changes."""
    if getattr(param, "_runtime_param", OTHER) is None:
        param._runtime_param = _AsGiven()


class _AsGiven:
    """In the place of typer's conversion of one parameter, until a value needs that."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value of a parameter."""
        described = param.type_descriptor
        several = param.multiple or param.nargs == -1
        found = as_given(value, described.annotation, described.parameter_info, several=several)
        if found is OTHER:
            param._runtime_param = None
            found = param.get_runtime_param().coerce(value, param=param, ctx=ctx)
        return found


def as_given(value: Any, annotation: Any, info: Any, *, several: bool = False) -> Any:
    """What typer makes of `value` for a parameter with the options `info`, or `OTHER`.

    >>> from typer import Option
    >>> as_given("5", int, Option(min=1)), as_given("0", int, Option(min=1)) is OTHER
    (5, True)
    """
    if info.parser is not None:
        return OTHER
    if several:
        if value is None:
            return ()
        if get_origin(annotation) is not list or not isinstance(value, list | tuple):
            return OTHER
        items = [as_given(item, get_args(annotation)[0], info) for item in value]
        return OTHER if any(item is OTHER or item is None for item in items) else items
    if value is None:
        return None
    if get_origin(annotation) is Literal:
        return value if info.case_sensitive and value in get_args(annotation) else OTHER
    if annotation in (int, float):
        return _number(value, annotation, info)
    if annotation is Path:
        return _path(value, info)
    return value if annotation in (str, bool) and type(value) is annotation else OTHER


def _number(value: Any, kind: type, info: Any) -> Any:
    if kind is int and isinstance(value, str) and _INTEGER.fullmatch(value):
        value = int(value)
    low = float("-inf") if info.min is None else info.min
    high = float("inf") if info.max is None else info.max
    fits = isinstance(value, int | float) and type(value) is kind and low <= value <= high
    return value if fits else OTHER


def _path(value: Any, info: Any) -> Any:
    """A path that is not there, or can be read."""
    wants = info.exists or info.writable or info.resolve_path
    if wants or not (info.file_okay and info.dir_okay):
        return OTHER
    if not isinstance(value, str | Path) or "\0" in str(value):
        return OTHER
    path = Path(value)
    return path if not path.exists() or os.access(path, os.R_OK) else OTHER
