"""The options of a public function as parameters that click understands, and back."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option, options_of, parameters_of
from modtok_cli.base.progress import Progress
from modtok_cli.base.public import description_of
from modtok_cli.cli import completion
from modtok_cli.cli.session import Session

# Titles of the sections of a recipe in help.
_PANELS = {
    "data": "Data and sampling",
    "init": "Initialization",
    "evaluation": "Evaluation and checkpoints",
}
_QUOTED = re.compile(r"`(\w+)`")


@dataclass
class Call:
    """A call of a public function as the command line says it.

    Attributes:
        values: arguments by parameter, those that were given on the command line, in modtok.toml
            or in the environment; the function has the defaults. A parameter that stands for a
            dataclass of options is in `groups` too.
        groups: the options of such dataclasses, by parameter.
        explicit: parameters and options of the command line.
    """

    declaration: Declaration
    progress: Progress
    values: dict[str, Any]
    groups: dict[str, dict[str, Any]]
    explicit: frozenset[str]

    def __call__(self, **others: Any) -> Any:
        """Call the function; `others` take precedence over `values`."""
        arguments = {**self.values, **others}
        for name in self.groups:
            if name not in arguments:
                arguments[name] = self.group(name)
        if self.declaration.takes_progress:
            arguments.setdefault("progress", self.progress)
        return self.declaration.function(**arguments)

    def group(self, name: str) -> Any:
        """The dataclass of options that a parameter stands for, as the command line has it."""
        return self.declaration.declared[name](**self.groups[name])  # type: ignore[operator]

    def value(self, name: str) -> Any:
        """The value of a parameter, its default if it was not given."""
        option = self.declaration.declared[name]
        assert isinstance(option, Option)
        return self.values.get(name, option.default)


class Declaration:
    """What a public function declares, as click needs it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = inspect.unwrap(function)
        self.declared = parameters_of(function)
        parameters = inspect.signature(function).parameters
        self.takes_progress = "progress" in parameters
        self.required = {name for name, each in parameters.items() if each.default is each.empty}
        own = {name: each for name, each in self.declared.items() if isinstance(each, Option)}
        names = {name: "/".join(option.all_flags) for name, option in own.items()}
        self.help = _QUOTED.sub(lambda word: names.get(word[1], word[1]), description_of(function))

    @property
    def parameters(self) -> Iterator[inspect.Parameter]:
        """Arguments first, then options in the order of the declaration."""
        options = [option for _, _, option in self._options()]
        for option in sorted(options, key=lambda option: not option.argument):
            is_required = option.argument and option.name in self.required
            yield as_parameter(option, is_required=is_required)

    def _options(self) -> Iterator[tuple[str, str | None, Option]]:
        """(name, parameter of the group that it belongs to, option)."""
        for name, each in self.declared.items():
            if isinstance(each, Option):
                if not each.python_only:
                    yield name, None, each
            else:
                yield from ((inner, name, option) for inner, option in options_of(each).items())

    def call(self, ctx: typer.Context, values: Mapping[str, Any], session: Session) -> Call:
        """The call that parsed `values` say.

        Raises:
            UsageError: a value that its option refuses; names the flag.
        """
        arguments: dict[str, Any] = {}
        groups: dict[str, dict[str, Any]] = {
            name: {} for name, each in self.declared.items() if not isinstance(each, Option)
        }
        explicit = set()
        for name, group, option in self._options():
            source = ctx.get_parameter_source(option.parameter)
            if option.parameter in session.explicit:
                explicit.add(name)
            if source is None or source.name == "DEFAULT":
                continue
            value = values[option.parameter]
            if value is None:
                continue
            value = _read(option, value)
            (arguments if group is None else groups[group])[name] = value
        return Call(self, session.progress, arguments, groups, frozenset(explicit))


def _read(option: Option, value: Any) -> Any:
    """The argument that a parsed value stands for."""
    if option.is_inverted:
        return not value
    if isinstance(value, Path) and str(value) == "-" and not option.argument:
        if option.stdout:
            return None
        raise UsageError(
            "- (standard input or output) is not supported here",
            where="/".join(option.all_flags),
            remedy="give a path",
        )
    try:
        if type(value) is int and abs(value) >= 2**63:
            raise ValueError("the number is out of range")
        return option.read(value)
    except ValueError as error:
        raise UsageError(str(error), where="/".join(option.all_flags)) from error


def as_parameter(option: Option, *, is_required: bool = False) -> inspect.Parameter:
    """An option as a parameter that typer understands."""
    kind, default = option.kind, None if callable(option.default) else option.default
    facts: dict[str, Any] = {"metavar": option.metavar or None, "help": option.help}
    flags = option.flags.split()
    if option.is_inverted:
        default = not default
    elif kind is bool and not flags:
        # There must be a way to turn it off where it is on, as it may be in a resumed run.
        may_be_on = option.changeable or default is True
        flags = [f"{option.flag}/--no-{option.flag[2:]}" if may_be_on else option.flag]
    elif not flags:
        flags = [option.flag]
    if option.parse is not None and get_origin(kind) is not list:
        kind = str
    if option.complete:
        facts["autocompletion"] = getattr(completion, option.complete)
    if kind in (int, float):
        facts |= {"min": option.low, "max": option.high}
    if isinstance(default, tuple):
        default = list(default) or None
    optional: Any = kind if default is not None or is_required else kind | None
    if option.argument:
        annotation: Any = Annotated[optional, typer.Argument(**facts)]
    else:
        section = _PANELS.get(option.section, option.section.capitalize())
        facts |= {
            "rich_help_panel": option.panel or section or None,
            "allow_from_autoenv": option.environment,
        }
        if kind is bool and default is None:
            facts["show_default"] = False
        annotation = Annotated[optional, typer.Option(*flags, **facts)]
    return inspect.Parameter(
        option.parameter,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if is_required else default,
        annotation=annotation,
    )
