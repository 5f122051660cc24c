"""Options, declared once: on the parameters of a function, or as fields of a dataclass.

    @public
    def nsl(texts: Texts, *, limit: Annotated[int, Option("Most lines.", low=1)] = 100): ...

    @dataclass(frozen=True, kw_only=True)
    class RunSettings(Declared):
        steps: int = option("Number of optimizer steps.", default=100, low=1)

The declaration is the only place that names the option: the command line, its help, settings
files, recipes, stored configurations and the reference of the Python API are made from it, and
values are checked by it (`base.public`, `cli.command`). A parameter whose type is a `Declared`
dataclass stands for all options of that class.
"""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    Self,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
)

from modtok_cli.base.errors import IN_COMMAND, UsageError
from modtok_cli.base.remote import path_of, refuse_remote

_KEY = "option"
_WORDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    Path: "a path",
    list: "a list",
}
_FINITE = "a finite number"
_TOO_LARGE = "the number is out of range"
_SWITCH = dict.fromkeys(["1", "true", "t", "yes", "y", "on"], True) | dict.fromkeys(
    ["0", "false", "f", "no", "n", "off"], False
)
_FROM_TEXT: dict[Any, Callable[[str], Any]] = {
    int: int,
    float: float,
    bool: lambda text: _SWITCH[text.lower()],
}
SHOWN = 1 << 20  # larger maxima only prevent overflows; help does not show them
_TYPES: dict[Any, tuple[type, ...]] = {int: (Integral,), float: (Real,), Path: (str, os.PathLike)}


@dataclass(frozen=True)
class Option:
    """One option.

    Attributes:
        name, kind, optional: name and type of the field or parameter, and whether its value may
            be None. On a parameter of a union type, `kind` is the type on the command line.
        help: imperative or noun phrase, ends with a full stop.
        default: a value, or a function of an object with the options declared before it. A
            parameter with this default has None in the signature, so that it is known whether it
            was given.
        adapt: makes a preset's value fit the options declared before it.
        section: table of a recipe file.
        metavar: placeholder for the value in help; "" for flags and choices.
        flags: flags in place of --name, such as "-t --tokenizer", "--text/--no-text", or
            "--no-text" for a parameter that is True by default.
        key: name in settings files in place of the long flag's.
        argument: positional on the command line.
        hub: "tokenizer" or "model" if a value may be a name of the hub (`base.hub`).
        complete: name of the function in `cli.completion` that lists values.
        panel: title of the group in help.
        writes: the value is a file or directory that is written.
        extended: the value is an input that the output may extend in place.
        file: an output that is never a directory.
        stdout: accepts - for standard output; the function gets None.
        python_only: not on the command line.
        recipe_only: a key of a recipe (`--config`, `--set SECTION.KEY=VALUE`), without a flag.
        accepts: test of a value in a Python call, and the expectation in the error.
        low, high, above, below: the value is at least, at most, greater or less than this.
        parse: from the text of the command line to the value; also normalizes other values.
            Raises ValueError.
        changeable: may differ when a run is resumed.
        staged: may differ between the stages of a run.
        of_shape: is a field of the model's shape.
        needs: name of a flag without which this option has no meaning.
        kind_of: the kind of the path that is the value, given the values of all options by name;
            None if it is none.
        of: kinds of that path that the option is for, in the plural; () for all (`base.unused`).
    """

    help: str
    default: Any = None
    adapt: Callable[[Any, Any], Any] | None = None
    section: str = ""
    metavar: str = ""
    flags: str = ""
    key: str = ""
    argument: bool = False
    hub: Literal["", "tokenizer", "model"] = ""
    complete: str = ""
    panel: str = ""
    writes: bool = False
    extended: bool = False
    file: bool = False
    stdout: bool = False
    python_only: bool = False
    recipe_only: bool = False
    accepts: tuple[Callable[[Any], bool], str] | None = None
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    parse: Callable[[Any], Any] | None = None
    changeable: bool = False
    staged: bool = False
    of_shape: bool = False
    needs: str = ""
    kind_of: Callable[[Any, Mapping[str, Any]], str | None] | None = None
    of: tuple[str, ...] = ()
    name: str = ""
    kind: Any = None
    optional: bool = False

    @property
    def flag(self) -> str:
        """The long flag, `--eval-every`, or what sets a key: `--set schedule.final_lr`."""
        if self.recipe_only:
            return f"--set {self.section}.{self.name}"
        if self.flags:
            return self.flags.split()[-1].partition("/")[0]
        return f"--{self.name.replace('_', '-')}"

    @property
    def all_flags(self) -> tuple[str, ...]:
        """Every flag, `--no-text` of `--text/--no-text` too."""
        return tuple(self.flags.replace("/", " ").split()) or (self.flag,)

    def flag_of(self, value: object) -> str:
        """The flag that gives a value: `--no-text` for False; the placeholder of an argument."""
        if self.argument:
            return self.metavar
        return self.all_flags[-1] if value is False else self.flag

    @property
    def parameter(self) -> str:
        """Name in click and settings files: `eval_every`."""
        if self.argument:
            return self.key or self.name
        return self.key or self.flag[2:].replace("-", "_")

    @property
    def is_inverted(self) -> bool:
        """Whether it has one flag, `--no-NAME`."""
        return self.kind is bool and self.flags.startswith("--no-")

    @property
    def choices(self) -> tuple[str, ...]:
        """Allowed values of a Literal, else ()."""
        return get_args(self.kind) if get_origin(self.kind) is Literal else ()

    @property
    def words(self) -> str:
        """The kind of a value in words: `a whole number`."""
        return " or ".join(self.choices) or _WORDS.get(self.kind, "text")

    def default_for(self, resolved: Any) -> Any:
        """The default, given an object that holds the options declared before this one."""
        return self.default(resolved) if callable(self.default) else self.default

    def from_text(self, text: str) -> Any:
        """The value that a word of the command line stands for.

        Raises:
            ValueError: says what is expected.

        >>> Option("Number.", kind=int).from_text("5")
        5
        """
        parse = _FROM_TEXT.get(self.kind)
        if parse is None or self.parse is not None:
            return self.read(text)
        try:
            return self._read(parse(text))
        except OverflowError as error:
            raise ValueError(_TOO_LARGE) from error
        except (ValueError, KeyError) as error:
            raise ValueError(f"expected {self._expected(text)}, got {text!r}") from error

    def _expected(self, text: str) -> str:
        """Type and range in words; a large maximum only where the text may be beyond it."""
        high = self.high is not None and (self.high < SHOWN or len(text) >= len(str(self.high)))
        limits = (self if high else dataclasses.replace(self, high=None)).range
        word = _WORDS[self.kind]
        if limits.startswith("at "):
            return f"{word} of {limits}"
        return word if limits == _FINITE else limits

    def read(self, value: Any) -> Any:
        """Check and convert a value from the command line, Python, TOML or JSON.

        Raises:
            ValueError: wrong type, not a choice, or out of range.
        """
        try:
            return self._read(value)
        except OverflowError as error:  # a whole number that is no float
            raise ValueError(_TOO_LARGE) from error

    def _read(self, value: Any) -> Any:
        if self.parse is not None:
            return self.parse(value)
        if self.choices:
            if value not in self.choices:
                *others, last = self.choices
                words = f"{', '.join(others)} or {last}" if others else last
                raise ValueError(f"expected {words}, got {value!r}")
            return value
        if self.accepts is not None:
            fits, words = self.accepts
            if not fits(value):
                raise ValueError(f"expected {words}, got {value!r}")
            return value
        kind = get_origin(self.kind) or self.kind
        if kind not in _WORDS:
            return value
        is_flag = isinstance(value, bool) and kind is not bool
        is_place = kind is Path or self.hub
        if is_place and "" in (value if isinstance(value, list | tuple) else [value]):
            raise ValueError("expected a path, got ''")  # which would be the current directory
        if is_flag or not isinstance(value, _TYPES.get(kind, kind)):
            raise ValueError(f"expected {_WORDS[kind]}, got {value!r}")
        if kind in (Path, float, int):
            value = path_of(value) if kind is Path else kind(value)
        if kind is Path and self.writes:
            refuse_remote(value)
        self._check_range(value)
        if type(value) is int and abs(value) >= 2**63:
            raise OverflowError
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
        return " and ".join(parts) or _FINITE


def option(help: str, **facts: Any) -> Any:
    """A dataclass field that is an option; arguments are as in `Option`."""
    return dataclasses.field(default=None, metadata={_KEY: Option(help, **facts)})


def option_of(annotation: Any, **facts: Any) -> Option:
    """The option of a parameter's annotated type, with other facts."""
    declared: Option = get_args(annotation)[1]
    return dataclasses.replace(declared, **facts)


def options_of(kind: Any) -> Mapping[str, Option]:
    """The options that a dataclass or a function declares, by name, in order."""
    return _options(kind)


class _Unknown:
    """Stands for a type that only type checkers know, and for all that is made of it."""

    def __getattr__(self, name: str) -> _Unknown:
        return self

    def __getitem__(self, item: Any) -> _Unknown:
        return self

    def __or__(self, other: Any) -> _Unknown:
        return self

    __ror__ = __or__


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, _Unknown())


@cache
def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function with its types.

    The keys of a `TypedDict` in `**name: Unpack[...]` are parameters, with None as the default.
    """
    function = inspect.unwrap(function)
    names = _Names(function.__globals__)
    signature = inspect.signature(function, eval_str=True, locals=names)
    parameters = []
    for parameter in signature.parameters.values():
        if get_origin(parameter.annotation) is not Unpack:
            parameters.append(parameter)
            continue
        (keys,) = get_args(parameter.annotation)
        parameters += [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
            for name, kind in keys.__annotations__.items()
        ]
    return signature.replace(parameters=parameters)


@cache
def parameters_of(function: Callable[..., Any]) -> Mapping[str, Option | type[Declared]]:
    """Parameters of a function with their option, or the dataclass of options that they stand for.

    Parameters without either are left out.
    """
    declared: dict[str, Option | type[Declared]] = {}
    for name, parameter in signature_of(function).parameters.items():
        annotation = parameter.annotation
        if isinstance(annotation, type) and issubclass(annotation, Declared):
            declared[name] = annotation
            continue
        facts = [each for each in get_args(annotation)[1:] if isinstance(each, Option)]
        if get_origin(annotation) is not Annotated or not facts:
            continue
        option, default = facts[-1], parameter.default
        if default is not None and default is not parameter.empty:
            option = dataclasses.replace(option, default=default)
        declared[name] = dataclasses.replace(
            option,
            name=name,
            kind=option.kind or _plain_kind(get_args(annotation)[0]),
            optional=default is None or NoneType in get_args(get_args(annotation)[0]),
        )
    return declared


def each_option(function: Callable[..., Any]) -> Iterator[tuple[str, str | None, Option]]:
    """(name, parameter of the dataclass that has it, option) of all options of a function."""
    for name, each in parameters_of(function).items():
        if isinstance(each, Option):
            yield name, None, each
        else:
            yield from ((inner, name, option) for inner, option in options_of(each).items())


def _plain_kind(annotation: Any) -> Any:
    """Type of a value on the command line: a path where a path is accepted too."""
    if isinstance(annotation, str):
        raise TypeError(f"an option of the type {annotation!r} needs a kind")
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ()
    if any((get_origin(part) or part) is os.PathLike for part in parts):
        return Path
    return _without_none(annotation)


@cache
def _options(kind: Any) -> Mapping[str, Option]:
    if not isinstance(kind, type):
        return {name: each for name, each in parameters_of(kind).items() if type(each) is Option}
    hints, section = get_type_hints(kind), getattr(kind, "section", "")
    found: dict[str, Option] = {}
    for field in dataclasses.fields(kind):
        hint = hints[field.name]
        if isinstance(hint, type) and issubclass(hint, Declared):
            found |= options_of(hint)
        elif _KEY in field.metadata:
            found[field.name] = dataclasses.replace(
                field.metadata[_KEY],
                name=field.name,
                kind=_without_none(hint),
                optional=hint != _without_none(hint),
                section=section,
            )
    return found


def _without_none(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        (kind,) = (part for part in get_args(kind) if part is not NoneType)
    return kind


@dataclass(frozen=True, kw_only=True)
class Declared:
    """Base of dataclasses of options: values that are given are checked and converted.

    A field may be another such dataclass; `section` is the table of a recipe with the options.
    """

    section = ""

    def __init_subclass__(cls, section: str = "") -> None:
        """Set the section of a class that is declared with one."""
        cls.section = section

    def __post_init__(self) -> None:
        """Check every value that is given.

        Raises:
            UsageError: a value of the wrong type or out of range; names the option.
        """
        for name, option in options_of(type(self)).items():
            value = vars(self).get(name)
            if value is None or isinstance(value, Declared):
                continue
            try:
                object.__setattr__(self, name, option.read(value))
            except ValueError as error:
                where = option.flag if IN_COMMAND.get() else name
                raise UsageError(str(error), where=where) from error

    def changed(self, **options: Any) -> Self:
        """A copy with other values of some options, which are checked."""
        return dataclasses.replace(self, **options)

    def __getitem__(self, name: str) -> Any:
        """The value of an option by its name."""
        return getattr(self, name)

    def given(self) -> dict[str, Any]:
        """The options that are not None, by name."""
        values = {name: self[name] for name in options_of(type(self))}
        return {name: value for name, value in values.items() if value is not None}
