"""The command tree as plain data, for help, man pages, settings and tests."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

SHOWN = 1 << 20  # larger maxima only prevent overflows; help does not show them


@dataclass(frozen=True)
class Line:
    """One rendered parameter.

    heading: `-k, --budget N`; text: help and default; value: `N`, or "" for a flag without a
    value; has_environment: whether an environment variable `MODTOK_…` sets it; panel: title of the
    group of options that it belongs to, "" for none.
    """

    name: str
    is_argument: bool
    flags: tuple[str, ...]
    value: str
    help: str
    note: str
    has_environment: bool = True
    panel: str = ""

    @property
    def heading(self) -> str:
        """Flags and value placeholder."""
        return f"{', '.join(self.flags)} {self.value}".strip()

    @property
    def text(self) -> str:
        """The help, with default and range in brackets."""
        return f"{self.help}  {self.note}".strip()


def plain_type(annotation: Any) -> Any:
    """`Annotated[X | None, …]` → X.

    >>> plain_type(Annotated[int | None, "…"])
    <class 'int'>
    """
    if get_origin(annotation) is Annotated:
        return plain_type(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (part for part in get_args(annotation) if part is not type(None))
    return annotation


@cache
def _annotations(callback: Any) -> dict[str, Any]:
    if callback is None:
        return {}
    signature = inspect.signature(callback, eval_str=True)
    return {name: p.annotation for name, p in signature.parameters.items()}


def type_of(command: Any, param: Any) -> Any:
    """The Python type of a parameter from the annotation of its function; str by default.

    click's own type objects change between its versions; the annotations do not.
    """
    return plain_type(_annotations(command.callback).get(param.name, str))


def range_of(command: Any, param: Any) -> tuple[int | None, int | None]:
    """Minimum and maximum value from the annotation of its function."""
    for extra in get_args(_annotations(command.callback).get(param.name, str))[1:]:
        if hasattr(extra, "min"):
            return extra.min, extra.max
    return None, None


def choices_of(annotation: Any) -> tuple[str, ...]:
    """Values of a Literal, else ()."""
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def describe(param: Any, ctx: Any) -> Line:
    """Render `param` of the command of `ctx`."""
    is_argument = param.param_type_name == "argument"
    annotation = type_of(ctx.command, param)
    choices = choices_of(annotation)
    value = param.metavar or "|".join(choices) or param.name.upper()
    if is_argument:
        value += "..." if param.nargs == -1 else ""
        value = value if param.required else f"[{value}]"
    elif param.is_flag:
        value = ""
    flags = sorted([*param.opts, *param.secondary_opts], key=lambda flag: flag.startswith("--"))
    return Line(
        name=param.name,
        is_argument=is_argument,
        flags=() if is_argument else tuple(flags),
        value=value,
        help=param.help or "",
        note=_note(param, ctx),
        has_environment=getattr(param, "allow_from_autoenv", True) and not param.is_eager,
        panel=getattr(param, "rich_help_panel", None) or "",
    )


def by_panel(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """Arguments, options and then groups of options, by title; none is empty."""
    found: dict[str, list[Line]] = {"Arguments": [], "Options": []}
    for line in lines:
        title = "Arguments" if line.is_argument else line.panel or "Options"
        found.setdefault(title, []).append(line)
    return {title: those for title, those in found.items() if those}


def _note(param: Any, ctx: Any) -> str:
    default = param.get_default(ctx, call=False)
    parts = []
    if isinstance(default, (list, tuple)):
        default = ", ".join(map(str, default)) or None
    if param.param_type_name == "option" and param.is_flag and param.secondary_opts:
        # A pair of switches: name the default one, unless it depends on something else.
        if param.show_default is not False:
            parts.append(f"default: {(param.opts if default else param.secondary_opts)[0]}")
    elif default is not None and default is not False:
        parts.append(f"default: {default}")
    low, high = range_of(ctx.command, param)
    if low is not None:
        parts.append(f"at least {low}")
    if high is not None and high < SHOWN:
        parts.append(f"at most {high}")
    return f"[{'; '.join(parts)}]" if parts else ""


@dataclass(frozen=True)
class Node:
    """One command: its words after `modtok`, the click command, its context."""

    path: tuple[str, ...]
    command: Any
    ctx: Any

    @property
    def is_group(self) -> bool:
        """Whether the node is a group of commands."""
        return hasattr(self.command, "commands")

    @property
    def summary(self) -> str:
        """First sentence of the help."""
        text = inspect.cleandoc(self.command.help or "")
        return " ".join(text.split("\n\n")[0].split())

    @property
    def usage(self) -> str:
        """`[OPTIONS] TEXT...`: the usage after the command's name."""
        words = ["[OPTIONS]"] + [line.value for line in self.lines if line.is_argument]
        return " ".join(words + (["COMMAND [ARGS]..."] if self.is_group else []))

    @property
    def lines(self) -> list[Line]:
        """Every rendered parameter, in the order of the help."""
        params = self.command.get_params(self.ctx)
        return [describe(param, self.ctx) for param in params if not param.hidden]


def nodes(root: Any) -> Iterator[Node]:
    """The root and every group and command below it, in the order of the help."""

    def walk(command: Any, path: tuple[str, ...], parent: Any) -> Iterator[Node]:
        name = path[-1] if path else "modtok"
        ctx = command.context_class(
            command, info_name=name, parent=parent, **command.context_settings
        )
        yield Node(path, command, ctx)
        if hasattr(command, "commands"):
            for child in command.list_commands(ctx):
                yield from walk(command.commands[child], (*path, child), ctx)

    yield from walk(root, (), None)
