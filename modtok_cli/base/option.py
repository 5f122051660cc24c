"""Options of a command, declared once, as fields of a dataclass.

    @dataclass(frozen=True, kw_only=True)
    class Settings(Declared):
        steps: int = option("Number of optimizer steps.", default=100, low=1)

The declaration is the only place that names the option: the command line, settings files,
recipes and stored configurations are read and checked by it. Fields that are not given are
None; what fills them is the owner's business (see `Option.default`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from modtok_cli.base.errors import UsageError

_KEY = "option"
_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "text",
}


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        name, kind, optional: name and type of the field, and whether a resolved value may
            be None.
        help: imperative or noun phrase, ends with a full stop.
        default: a value, or a function of an object with the options declared before it.
        adapt: makes a preset's value fit the options declared before it.
        section: table of a recipe file.
        metavar: placeholder for the value in help; "" for flags and choices.
        short: short flag, such as "-t".
        low, high, above, below: the value is at least, at most, greater or less than this.
        parse: from the text of the command line to the value; also normalizes other values.
            Raises ValueError.
        changeable: may differ when a run is resumed.
        of_shape: is a field of the model's shape.
        needs: name of a flag without which this option has no meaning.
    """

    help: str
    default: Any = None
    adapt: Callable[[Any, Any], Any] | None = None
    section: str = ""
    metavar: str = ""
    short: str = ""
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    parse: Callable[[Any], Any] | None = None
    changeable: bool = False
    of_shape: bool = False
    needs: str = ""
    name: str = ""
    kind: Any = None
    optional: bool = False

    @property
    def flag(self) -> str:
        """The long flag: `--offload-delay`."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def choices(self) -> tuple[str, ...]:
        """Allowed values of a Literal, else ()."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    def default_for(self, resolved: Any) -> Any:
        """The default, given an object that holds the options declared before this one."""
        return self.default(resolved) if callable(self.default) else self.default

    def read(self, value: Any) -> Any:
        """Check and convert a value from the command line, Python, TOML or JSON.

        Raises:
            ValueError: wrong type, not a choice, or out of range.
        """
        if self.parse is not None:
            return self.parse(value)
        if self.choices:
            if value not in self.choices:
                raise ValueError(f"expected {' or '.join(self.choices)}, got {value!r}")
            return value
        if self.kind is Path and isinstance(value, str):
            return Path(value)
        if self.kind is float and type(value) is int:
            value = float(value)
        if not isinstance(value, self.kind) or (type(value) is bool and self.kind is not bool):
            raise ValueError(f"expected {_WORDS[self.kind]}, got {value!r}")
        self._check_range(value)
        return value

    def _check_range(self, value: Any) -> None:
        if type(value) not in (int, float):
            return
        wrong = (
            not math.isfinite(value)
            or (self.low is not None and value < self.low)
            or (self.high is not None and value > self.high)
            or (self.above is not None and value <= self.above)
            or (self.below is not None and value >= self.below)
        )
        if wrong:
            raise ValueError(
                f"expected {self.range}, got {value:{'g' if self.kind is float else ''}}"
            )

    @property
    def range(self) -> str:
        """The allowed values in words.

        >>> Option("Share.", low=0, high=1).range, Option("Rate.", above=0).range
        ('at least 0 and at most 1', 'a number greater than 0')
        """
        parts = []
        if self.above is not None:
            parts.append(f"a number greater than {self.above:g}")
        if self.low is not None:
            parts.append(f"at least {self.low:g}")
        if self.high is not None:
            parts.append(f"at most {self.high}")
        if self.below is not None:
            parts.append(f"less than {self.below:g}")
        return " and ".join(parts) or "a finite number"


def option(help: str, **facts: Any) -> Any:
    """A dataclass field that is an option; arguments are those of `Option`."""
    return dataclasses.field(default=None, metadata={_KEY: Option(help, **facts)})


def options_of(kind: Any) -> Mapping[str, Option]:
    """The options that a dataclass declares, by name, in order."""
    return _options(kind)


@cache
def _options(kind: Any) -> Mapping[str, Option]:
    hints = get_type_hints(kind)
    return {
        field.name: dataclasses.replace(
            field.metadata[_KEY],
            name=field.name,
            kind=_without_none(hints[field.name]),
            optional=hints[field.name] != _without_none(hints[field.name]),
        )
        for field in dataclasses.fields(kind)
        if _KEY in field.metadata
    }


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (part for part in get_args(kind) if part is not NoneType)
    return kind


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Base of dataclasses of options: values that are given are checked and converted."""

    def __post_init__(self) -> None:
        """Check every value that is given.

        Raises:
            UsageError: a value of the wrong type or out of range; names the flag.
        """
        for name, option in options_of(type(self)).items():
            value = getattr(self, name)
            if value is None:
                continue
            try:
                object.__setattr__(self, name, option.read(value))
            except ValueError as error:
                raise UsageError(str(error), where=option.flag) from error

    def given(self) -> dict[str, Any]:
        """The options that are not None, by name."""
        found = {name: getattr(self, name) for name in options_of(type(self))}
        return {name: value for name, value in found.items() if value is not None}
