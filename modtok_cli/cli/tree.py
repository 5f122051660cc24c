"""The command tree as plain data, for help, man pages, settings and tests."""

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from modtok_cli.base.option import SHOWN, Option

MORE = "More options"
"""Panel of options that few calls need; help shows the first sentence of each."""
_END_OF_SENTENCE = re.compile(r"(?<!\.)\. (?=[A-Z-])")


def first_sentence(text: str) -> str:
    """What an option means in every command; what follows depends on the command.

    >>> first_sentence("Field of JSON, a.b if nested. Default: text.")
    'Field of JSON, a.b if nested.'
    """
    return _END_OF_SENTENCE.split(text)[0].rstrip(".") + "."


@dataclass(frozen=True)
class Line:
    """One rendered parameter.

    heading: `-k, --budget N`; text: help and default; value: `N`, or "" for a flag without a
    value; panel: title of the group of options that it belongs to, "" for none.
    """

    name: str
    is_argument: bool
    flags: tuple[str, ...]
    value: str
    help: str
    note: str
    panel: str = ""

    @property
    def heading(self) -> str:
        """Flags and value placeholder."""
        return f"{', '.join(self.flags)} {self.value}".strip()

    @property
    def text(self) -> str:
        """The help, with default and range in brackets."""
        return f"{self.help}  {self.note}".strip()

    @property
    def brief(self) -> str:
        """`text`, of further options the first sentence with the default."""
        if self.panel != MORE:
            return self.text
        default = self.note.partition(";")[0].rstrip("]") + "]"
        is_said = default.startswith("[default: ") and "--no-" not in default
        return f"{first_sentence(self.help)}  {default * is_said}".strip()


def options_of_command(command: Any) -> Mapping[str, Option]:
    """Return options that a command declares, by parameter; groups have none."""
    return getattr(command.callback, "options", {})


def describe(param: Any, ctx: Any) -> Line:
    """Render `param` of the command of `ctx`."""
    is_argument = param.param_type_name == "argument"
    option = options_of_command(ctx.command).get(param.name)
    choices = "|".join(option.choices) if option else ""
    value = param.metavar or choices or param.name.upper()
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
        note=_note(param, ctx, option),
        panel=getattr(param, "rich_help_panel", None) or "",
    )


def keys_of_command(command: Any) -> list[Line]:
    """Return the keys of a recipe that have no flag, as lines of their own panel."""
    return [
        Line(
            name=option.name,
            is_argument=False,
            flags=(f"{option.section}.{option.name}",),
            value="|".join(option.choices) or option.metavar,
            help=option.help,
            note="" if callable(option.default) else _note_of_default(option.default),
            panel="Keys of a recipe (--config, --set)",
        )
        for option in getattr(command.callback, "keys", ())
    ]


def by_panel(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """Return arguments, options and then groups of options, by title; none is empty."""
    panels: dict[str, list[Line]] = {"Arguments": [], "Options": []}
    for line in lines:
        title = "Arguments" if line.is_argument else line.panel or "Options"
        panels.setdefault(title, []).append(line)
    return {title: those for title, those in panels.items() if those}


def _note_of_default(value: object) -> str:
    return "" if value is None or value is False else f"[default: {value}]"


def _note(param: Any, ctx: Any, option: Option | None) -> str:
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
    if option and option.kind in (int, float) and option.parse is None:
        if option.above:
            parts.append(f"greater than {option.above:g}")
        if option.low is not None and (option.kind is float or option.low > 1):
            parts.append(f"at least {option.low}")
        if option.high is not None and option.high < SHOWN:
            parts.append(f"at most {option.high}")
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
    """Yield the root and every group and command below it, in the order of the help."""

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
