"""typer's commands with options as `base.option` declares them, and help within 80 columns."""

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from modtok_cli.base.errors import UsageError
from modtok_cli.base.option import Option
from modtok_cli.cli.names import ORDER, heading_of
from modtok_cli.cli.tree import MORE, Node, by_panel, options_of_command


class ClosedPipe(Exception):
    """The reader of standard output closed the pipe."""


class Interrupted(Exception):
    """Ctrl-C."""


class _AsText:
    """In the place of typer's validator (pydantic, whose import takes as long as numpy's)."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        return () if value is None and (param.multiple or param.nargs == -1) else value


def _take_text(params: Iterable[Any]) -> None:
    for param in params:
        param.get_runtime_param = _AsText


class _WithHelp:
    """How commands and groups write their help."""

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write `modtok nsl [OPTIONS] TEXT...`, with arguments as in the man page."""
        formatter.write_usage(ctx.command_path, Node((), ctx.command, ctx).usage)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options and commands."""
        for title, lines in by_panel(Node((), ctx.command, ctx).lines).items():
            with formatter.section(title):
                formatter.write_dl([(line.heading, line.brief) for line in lines], col_max=26)
                if title == MORE:
                    page = ctx.command_path.replace(" ", "-")
                    formatter.write_text(f"In full: man {page}, or the reference of commands.")
        if isinstance(self, Group):
            self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        if ctx.command.epilog:
            with formatter.section("Examples"):
                for line in inspect.cleandoc(ctx.command.epilog).splitlines():
                    indent = " " * formatter.current_indent
                    formatter.write(f"{indent}{line}".rstrip() + "\n")


class Command(_WithHelp, TyperCommand):
    """A command with examples in its help, which accepts each single-value option once."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, and read the values as their options say.

        Raises:
            UsageError: an option that takes one value is given twice, or refuses its value.
        """
        _take_text(self.get_params(ctx))
        # The framework keeps the last value and drops the others silently.
        _, _, params = self.make_parser(ctx).parse_args(args=list(args))
        if not any(param.is_eager for param in params):  # --help works in any case
            for param, times in Counter(params).items():
                if times > 1 and _takes_one_value(param):
                    raise _repeated(param, times)
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            _read_values(ctx, options_of_command(self))
        return rest


class Group(_WithHelp, TyperGroup):
    """A group of commands that passes closed pipes and Ctrl-C through to `run`.

    click would map them to its own exit statuses (1 for a closed pipe).
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Return commands and groups in the order of `ORDER`."""
        words = [name.split() for name in ORDER]
        places = [each[-1] if ctx.parent else each[0] for each in words]
        return sorted(self.commands, key=lambda name: [*places, name].index(name))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands under their headings."""
        names = self.list_commands(ctx)
        width = max(map(len, names), default=0)
        rows: dict[str, list[tuple[str, str]]] = {}
        for name in names:
            text = self.commands[name].get_short_help_str(formatter.width - 6 - width)
            heading = "Commands" if ctx.parent else heading_of(name)
            rows.setdefault(heading, []).append((name.ljust(width), text))
        for heading, those in rows.items():
            with formatter.section(heading):
                formatter.write_dl(those)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments before the command."""
        _take_text(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the arguments; `--help` prints here."""
        return _translated(super().make_context, *args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        return _translated(super().invoke, ctx)


def _read_values(ctx: typer.Context, options: Mapping[str, Option]) -> None:
    for name, option in options.items():
        value, source = ctx.params[name], source_of(ctx, name)
        if value is None or source == "DEFAULT":
            continue
        if option.file and str(value).endswith("/"):
            what = "names a directory, and a file is written"
            remedy = f"use --hf {value}, or name a file" if "hf" in options else "name a file"
            raise UsageError(what, where=value, remedy=remedy)
        try:
            if isinstance(value, list | tuple):
                (kind,) = get_args(option.kind)
                value = [kind(each) for each in value]
            value = option.from_text(value) if isinstance(value, str) else option.read(value)
        except ValueError as error:
            where = origin_of(ctx, name) + _flags(option)
            raise UsageError(str(error), where=where) from error
        if isinstance(value, Path) and str(value) == "-" and not option.argument:
            if not option.stdout:
                what = "- (standard input or output) is not supported here"
                raise UsageError(what, where=_flags(option), remedy="give a path")
            value = None
        ctx.params[name] = value


def _flags(option: Option) -> str:
    return option.metavar if option.argument else "/".join(option.all_flags)


def source_of(ctx: typer.Context, name: str) -> str | None:
    """Return the source of a parameter's value, as click names it."""
    source = ctx.get_parameter_source(name)
    return None if source is None else source.name


def origin_of(ctx: typer.Context, name: str) -> str:
    """Return `modtok.toml: ` for a value of that file, else ""."""
    return "modtok.toml: " if source_of(ctx, name) == "DEFAULT_MAP" else ""


def _takes_one_value(param: Any) -> bool:
    is_switch = param.param_type_name == "option" and param.is_flag and not param.secondary_opts
    return param.param_type_name == "option" and not param.multiple and not is_switch


def _repeated(param: Any, times: int) -> UsageError:
    flag = "/".join([param.opts[-1], *param.secondary_opts])
    is_list = (param.metavar or "").endswith(",...")
    remedy = f"separate values by commas: {param.opts[-1]} A,B" if is_list else "give it once"
    return UsageError(f"{flag} is given {times} times", remedy=remedy)


def _translated(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except BrokenPipeError as error:
        raise ClosedPipe from error
    except KeyboardInterrupt as error:
        raise Interrupted from error
