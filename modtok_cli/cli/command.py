"""How a function becomes a command: shared flags, examples, help that fits 80 columns.

`@command("nsl", examples=…)` declares a function whose first parameter is the
`Session`; the other parameters are the command's own. `-q`, `-v` and `--debug` are added
here, so that every command has them and none can forget them.
"""

from __future__ import annotations

import inspect
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ParamSpec

import typer
from typer.core import TyperCommand, TyperGroup

from modtok_cli.cli.options import Debug, Quiet, Verbose
from modtok_cli.cli.session import Session
from modtok_cli.cli.tree import describe

P = ParamSpec("P")
_SHARED = (("quiet", Quiet), ("verbose", Verbose), ("debug", Debug))


class ClosedPipe(Exception):
    """The reader of our output went away: end quietly."""


class Interrupted(Exception):
    """Ctrl-C."""


def _format_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Arguments and options as `describe` words them, in place of the framework's notation."""
    rows: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for param in command.get_params(ctx):
        if not param.hidden:
            line = describe(param, ctx)
            section = "Arguments" if line.is_argument else "Options"
            rows[section].append((line.heading, line.text))
    for section, lines in rows.items():
        if lines:
            with formatter.section(section):
                formatter.write_dl(lines, col_max=26)


def _format_usage(command: Any, ctx: Any, formatter: Any) -> None:
    """`modtok nsl [OPTIONS] TEXT...`, arguments as the man page and the list below have them."""
    lines = [describe(param, ctx) for param in command.get_params(ctx)]
    arguments = [line.value for line in lines if line.is_argument]
    formatter.write_usage(ctx.command_path, " ".join(["[OPTIONS]", *arguments]))


def _format_examples(command: Any, formatter: Any) -> None:
    if command.epilog:
        with formatter.section("Examples"):
            for line in inspect.cleandoc(command.epilog).splitlines():
                indent = " " * formatter.current_indent
                formatter.write(f"{indent}{line}".rstrip() + "\n")


class Command(TyperCommand):
    """A command whose help shows our option table and its examples."""

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write how it is called."""
        _format_usage(self, ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options."""
        _format_options(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        _format_examples(self, formatter)


class Group(TyperGroup):
    """A group of commands; also where closed pipes and Ctrl-C leave the framework.

    The framework would turn them into exit statuses of its own (1 for a closed pipe).
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Groups first (the text comes before what is learned from it), then as declared."""
        return sorted(self.commands, key=lambda name: not hasattr(self.commands[name], "commands"))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write options, then the commands."""
        _format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        _format_examples(self, formatter)

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse; `--help` prints here."""
        return _translated(super().make_context, *args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        return _translated(super().invoke, ctx)


def _translated(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except BrokenPipeError as error:
        raise ClosedPipe from error
    except KeyboardInterrupt as error:
        raise Interrupted from error
    except SystemError as error:
        # Ctrl-C in a kernel: its return finds the exception set, and Python wraps it, perhaps
        # several times.
        cause: BaseException | None = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if isinstance(cause, KeyboardInterrupt):
            raise Interrupted from error
        raise


def session_of(ctx: typer.Context) -> Session:
    """The session of this run, made when the caller (a test, say) brought none."""
    root = ctx.find_root()
    if not isinstance(root.obj, Session):
        root.obj = Session()
    return root.obj


@dataclass(frozen=True)
class Registered:
    """One command as declared: its words (`corpus count`), what runs, its examples."""

    words: tuple[str, ...]
    run: Callable[..., None]
    examples: str

    def add_to(self, app: typer.Typer) -> None:
        """Make it a command of `app`."""
        app.command(self.words[-1], cls=Command, epilog=self.examples)(self.run)


REGISTERED: dict[str, Registered] = {}


def command(words: str, *, examples: str) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Declare a function `f(session, …)` as the command `words`; `f` itself is returned."""

    def register(function: Callable[P, None]) -> Callable[P, None]:
        REGISTERED[words] = Registered(tuple(words.split()), as_command(function), examples)
        return function

    return register


def as_command(function: Callable[..., None]) -> Callable[..., None]:
    """`function` with context in, session out, and the shared flags in its signature."""
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]

    def run(**values: Any) -> None:
        ctx: typer.Context = values.pop("ctx")
        session = session_of(ctx)
        for flag, _ in _SHARED:
            if values.pop(flag):
                setattr(session, flag, True)
        session.label = ctx.command_path
        session.told = frozenset(name for name in ctx.params if _source(ctx, name) == "COMMANDLINE")
        if session.verbose:
            _say_settings(session, ctx)
        started = time.perf_counter()
        function(session, **values)
        if session.verbose:
            _say_cost(session, time.perf_counter() - started)

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("ctx", keyword, annotation=typer.Context),
        *(parameter.replace(kind=keyword) for parameter in own),
        *(
            inspect.Parameter(flag, keyword, default=False, annotation=annotation)
            for flag, annotation in _SHARED
        ),
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = function.__doc__
    return run


def _source(ctx: typer.Context, name: str) -> str | None:
    """Where the value of a parameter comes from, as the framework calls it."""
    source = ctx.get_parameter_source(name)
    return None if source is None else source.name


def _say_settings(session: Session, ctx: typer.Context) -> None:
    """One line a setting that did not come from the command line's own defaults."""
    origin = {
        "COMMANDLINE": "command line",
        "ENVIRONMENT": "environment",
        "DEFAULT_MAP": session.settings_file,
        "DEFAULT": "default",
    }
    for name, value in ctx.params.items():
        source = _source(ctx, name)
        if value is None or source is None or name in dict(_SHARED):
            continue
        session.say(f"setting {name} = {value!s} ({origin.get(source, source)})")


def _say_cost(session: Session, seconds: float) -> None:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    mebibytes = peak / (2**20 if sys.platform == "darwin" else 2**10)
    session.say(f"{session.label}: {seconds:.2f} s, peak memory {mebibytes:.0f} MiB")
