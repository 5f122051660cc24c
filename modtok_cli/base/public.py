"""Exports of `modtok`: functions that check their arguments and issue Python warnings."""

import inspect
import os
import re
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from modtok_cli.base.errors import IN_COMMAND, ModtokError, UsageError, renamed
from modtok_cli.base.extras import missing_package
from modtok_cli.base.files import denied, is_there, one_call
from modtok_cli.base.hub import local_path
from modtok_cli.base.option import (
    Declared,
    Option,
    each_option,
    options_of,
    parameters_of,
    signature_of,
)
from modtok_cli.base.progress import SILENT, Progress, Silent
from modtok_cli.base.unused import leave_out

P = ParamSpec("P")
T = TypeVar("T")

PACKAGE = str(Path(__file__).parents[1]) + os.sep
_NONE: Mapping[str, str] = {}
_SECTIONS = ("Args:", "Returns:", "Yields:", "Examples:", "Raises:")


class ModtokWarning(UserWarning):
    """A result that is usable but probably not what was intended."""


class PythonWarnings(Silent):
    """A progress that draws nothing and raises each warning as a `ModtokWarning`.

    A warning has the line of the user's program that called modtok, also if a thread of modtok
    issues it, and `names` of parameters in place of flags.
    """

    def __init__(self, names: Mapping[str, str] = _NONE) -> None:
        super().__init__()
        self._names = names
        self._thread = threading.get_ident()
        self._caller = _caller()

    def warn(self, text: str) -> None:
        """Issue a Python warning."""
        is_own_thread = threading.get_ident() == self._thread
        file, line, names = _caller() if is_own_thread else self._caller
        warnings.warn_explicit(
            renamed(text, self._names),
            ModtokWarning,
            file,
            line,
            module=names.get("__name__", "<string>"),
            registry=names.setdefault("__warningregistry__", {}),
        )


def _caller() -> tuple[str, int, dict[str, Any]]:
    """File, line and global names of the program that called the first function of modtok."""
    frame = caller = sys._getframe()
    while frame.f_back is not None:
        is_ours = frame.f_code.co_filename.startswith(PACKAGE)
        frame = frame.f_back
        if is_ours and not frame.f_code.co_filename.startswith(PACKAGE):
            caller = frame
    return caller.f_code.co_filename, caller.f_lineno, caller.f_globals


def public(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function with declared options one of the Python API.

    Its arguments are checked and converted by their options, errors name parameters in place of
    flags, and `progress` becomes warnings of Python if it is not given. The docstring of
    `modtok.NAME` has the section "Args" (`documented`). A command calls the function below
    (`inspect.unwrap`).

    Raises (when called):
        UsageError: an argument that its option refuses; names it.

    >>> from typing import Annotated
    >>> @public
    ... def learn(k: Annotated[int, Option("Number of tokens.", flags="-k --budget")]) -> None: ...
    >>> learn("3000")
    Traceback (most recent call last):
        ...
    modtok_cli.base.errors.UsageError: k: expected a whole number, got '3000'
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if IN_COMMAND.get():
            return function(*args, **kwargs)
        declared, signature = parameters_of(function), signature_of(function)
        values = signature.bind(*args, **kwargs)
        for name, value in values.arguments.items():
            option = declared.get(name)
            if isinstance(option, type) and not isinstance(value, option):
                raise UsageError(f"expected {option.__name__}, got {value!r:.80}", where=name)
            if not isinstance(option, Option) or (value is None and option.optional):
                continue
            try:
                values.arguments[name] = option.read(value)
            except ValueError as error:
                raise UsageError(str(error), where=name) from error
        refuse_inputs(
            (option, values.arguments[name])
            for name, option in declared.items()
            if isinstance(option, Option) and name in values.arguments
        )
        if "progress" in signature.parameters and values.arguments.get("progress") is None:
            values.arguments["progress"] = PythonWarnings(_names(function))
        progress = values.arguments.get("progress", SILENT)
        try:
            for name, value in values.arguments.items():
                values.arguments[name] = located(declared.get(name), value, progress)
            _leave_out(function, values.arguments)
            with one_call():
                return function(*values.args, **values.kwargs)
        except ModtokError as error:
            error.rename(_names(function))
            raise
        except ModuleNotFoundError as error:
            if (lack := missing_package(error)) is None:
                raise
            raise lack from error
        except OSError as error:
            if (refusal := denied(error)) is None:
                raise
            raise refusal from error

    return call


def _leave_out(function: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Refuse arguments that the call does not use; defaults were not given."""
    options = {name: option for name, _, option in each_option(function)}
    values = {name: value for name, value in arguments.items() if name in options}
    for value in arguments.values():
        values |= value.given() if isinstance(value, Declared) else {}
    values = {name: value for name, value in values.items() if value is not None}

    def given(name: str) -> bool:
        value, default = values.get(name), options[name].default
        if isinstance(value, Path) and isinstance(default, str):
            default = Path(default)
        if isinstance(value, list) and isinstance(default, tuple):
            value = tuple(value)
        return value is not None and not (type(value) is type(default) and value == default)

    leave_out(function, options, values, given)


def located(option: object, value: Any, progress: Progress) -> Any:
    """The value of an option with places for names of the hub (`base.hub.local_path`).

    A dataclass of options has them in its fields.
    """
    if isinstance(value, Declared):
        given, options = value.given(), options_of(type(value))
        places = {name: located(options[name], each, progress) for name, each in given.items()}
        return value if places == given else value.changed(**places)
    if not isinstance(option, Option) or not option.hub:
        return value
    if isinstance(value, list | tuple):
        return [located(option, each, progress) for each in value]
    if not isinstance(value, str | os.PathLike):
        return value
    place = local_path(os.fspath(value), option.hub, progress)
    if place == os.fspath(value):
        return value
    return place if isinstance(value, str) else Path(place)


def refuse_inputs(given: Iterable[tuple[Option, Any]]) -> None:
    """Refuse a file or directory that is written and an input of the same call, or written twice.

    `given`: options and their values.

    Raises:
        UsageError: names both options.
    """
    places = [
        (option, _places(option, value))
        for option, value in given
        if not option.extended and (option.writes or option.metavar in _OF_PLACES)
    ]
    for option, files in places:
        for path in files if option.writes else ():
            for other, others in places:
                if other is not option and path.resolve() in map(Path.resolve, others):
                    name = other.metavar if other.argument else other.flag
                    raise UsageError(
                        f"is {name} too and would be lost",
                        where=f"{option.flag} {path}",
                        remedy="choose another place",
                    )


_OF_PLACES = {"PATH", "FILE", "DIR", "TEXT", "TOKENIZER", "MODEL", "RUN", "SLICE"}


def _places(option: Option, value: Any) -> list[Path]:
    """The paths in the value of an option; outputs may be absent."""
    values = value if isinstance(value, list | tuple) else [value]
    texts = [os.fspath(each) for each in values if isinstance(each, str | os.PathLike)]
    paths = [Path(text) for text in texts if text != "-"]
    return [path for path in paths if option.writes or is_there(path)]


def description_of(function: Callable[..., Any]) -> str:
    """The docstring of a function before its sections."""
    text = inspect.cleandoc(inspect.unwrap(function).__doc__ or "")
    lines = text.splitlines()
    end = next((i for i, line in enumerate(lines) if line in _SECTIONS), len(lines))
    return "\n".join(lines[:end]).strip()


def documented(function: Callable[..., Any]) -> str:
    """The docstring of a function with the section "Args" made of its options."""
    text = inspect.cleandoc(inspect.unwrap(function).__doc__ or "")
    head = description_of(function)
    lines = []
    declared = parameters_of(function)
    names = _names(function)
    for name in signature_of(function).parameters:
        each = declared.get(name)
        if name == "progress":
            words = "Receives progress; warnings become `ModtokWarning` by default."
        elif each is None:
            continue
        elif isinstance(each, Option):
            words = _for_python(each, names)
        else:
            words = f"See `{each.__name__}`."
        lines.append(textwrap.fill(f"{name}: {words}", 96, subsequent_indent="    "))
    section = "Args:\n" + textwrap.indent("\n".join(lines), "    ")
    return "\n\n".join(part for part in (head, section, text[len(head) :].strip()) if part)


def _names(function: Callable[..., Any]) -> dict[str, str]:
    """Parameters by the flags of the command line: `k`, `settings.steps`."""
    return {
        flag: name if group is None else f"{group}.{name}"
        for name, group, option in each_option(function)
        for flag in option.all_flags
    }


def _for_python(option: Option, names: Mapping[str, str]) -> str:
    """Help with parameters in place of flags; the help of `--no-x` says what False does."""
    words = option.help.removesuffix(" Repeatable.")
    if option.flags.startswith("--no-"):
        words = f"If false, {words[0].lower()}{words[1:]}"
    return re.sub(
        r"(?<![\w-])--?[a-z][\w-]*",
        lambda flag: f"`{names[flag[0]]}`" if flag[0] in names else flag[0],
        words,
    )
