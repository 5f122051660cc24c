"""Declare functions as commands: shared flags, examples, help within 80 columns.

`@command("nsl", nsl, examples=…)` registers the command of a public function, which declares the
options; see `cli.declaration`. `-q`, `-v` and `--debug` are added to every command here.
"""

from __future__ import annotations

import inspect
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ParamSpec, get_args

import typer
from typer.core import TyperCommand, TyperGroup

from modtok_cli.base.errors import UsageError
from modtok_cli.base.public import IN_COMMAND
from modtok_cli.cli.declaration import Declaration
from modtok_cli.cli.options import STDOUT, Debug, NoKeep, Quiet, Table, Verbose
from modtok_cli.cli.output import KEEP, TABLES
from modtok_cli.cli.session import Session
from modtok_cli.cli.tree import by_panel, describe
from modtok_cli.cli.values import without_validator

P = ParamSpec("P")
_SHARED = (("quiet", Quiet), ("verbose", Verbose), ("debug", Debug))


class ClosedPipe(Exception):
    """The reader of standard output closed the pipe."""


class Interrupted(Exception):
    """Ctrl-C."""


def _format_options(command: Any, ctx: Any, formatter: Any) -> None:
    """Write arguments and options as `describe` renders them."""
    shown = (describe(param, ctx) for param in command.get_params(ctx) if not param.hidden)
    for title, lines in by_panel(shown).items():
        with formatter.section(title):
            formatter.write_dl([(line.heading, line.text) for line in lines], col_max=26)


def _format_usage(command: Any, ctx: Any, formatter: Any) -> None:
    """Write `modtok nsl [OPTIONS] TEXT...`, with arguments as in the man page."""
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
    """A command with examples in its help, which accepts each single-value option once."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments.

        Raises:
            UsageError: an option that takes one value is given twice.
        """
        for param in self.get_params(ctx):
            without_validator(param)
        # The framework keeps the last value and drops the others silently.
        _, _, given = self.make_parser(ctx).parse_args(args=list(args))
        if not any(param.is_eager for param in given):  # --help works in any case
            for param, times in Counter(given).items():
                if times > 1 and _takes_one_value(param):
                    raise _repeated(param, times)
        return super().parse_args(ctx, args)

    def format_usage(self, ctx: Any, formatter: Any) -> None:
        """Write the usage line."""
        _format_usage(self, ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options."""
        _format_options(self, ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        _format_examples(self, formatter)


class Group(TyperGroup):
    """A group of commands that passes closed pipes and Ctrl-C through to `run`.

    click would map them to its own exit statuses (1 for a closed pipe).
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """Groups first, then commands in order of declaration."""
        return sorted(self.commands, key=lambda name: not hasattr(self.commands[name], "commands"))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write options, then the commands."""
        _format_options(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the examples."""
        _format_examples(self, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments before the command."""
        for param in self.get_params(ctx):
            without_validator(param)
        return super().parse_args(ctx, args)

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the arguments; `--help` prints here."""
        return _translated(super().make_context, *args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        return _translated(super().invoke, ctx)


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


def session_of(ctx: typer.Context) -> Session:
    """The session of this run; created if the caller (such as a test) did not pass one."""
    root = ctx.find_root()
    if not isinstance(root.obj, Session):
        root.obj = Session()
    return root.obj


@dataclass(frozen=True)
class Registered:
    """A registered command: its words (`corpus count`), what its public function declares."""

    words: tuple[str, ...]
    run: Callable[..., None]
    examples: str
    declaration: Declaration | None = None

    def add_to(self, app: typer.Typer) -> None:
        """Add the command to `app`."""
        app.command(self.words[-1], cls=Command, epilog=self.examples)(self.run)


REGISTERED: dict[str, Registered] = {}


def command(
    words: str,
    function: Callable[..., Any] | None = None,
    *,
    examples: str,
    tables: bool = True,
    resumes: bool = False,
    keeps: bool = False,
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Register the command `words`; returns the decorated function.

    With a public `function`, its options are those of the command and its docstring is the help,
    and the decorated function `f(session, call, …)` calls it and prints the result; what `f`
    declares and documents besides is of the command line only. Without, `f(session, …)` declares
    everything.

    A command with `--json` has `--table` too, unless its results are no `tables`. One that
    `resumes` keeps what it has finished when it is interrupted; one that `keeps` writes its rows to
    `results/` of a workspace.
    """

    def register(show: Callable[P, None]) -> Callable[P, None]:
        declaration = Declaration(function) if function else None
        REGISTERED[words] = Registered(
            tuple(words.split()),
            as_command(show, declaration, tables=tables, resumes=resumes, keeps=keeps),
            examples,
            declaration,
        )
        return show

    return register


def as_command(
    show: Callable[..., None],
    public: Declaration | None = None,
    *,
    tables: bool = True,
    resumes: bool = False,
    keeps: bool = False,
) -> Callable[..., None]:
    """Adapt a public function and what `show` adds to it to click, with the shared flags."""
    skipped = 2 if public else 1  # session, call
    own = list(inspect.signature(show, eval_str=True).parameters.values())[skipped:]
    annotations = {parameter.name: parameter.annotation for parameter in own}

    def run(**values: Any) -> None:
        ctx: typer.Context = values.pop("ctx")
        session = session_of(ctx)
        for flag, _ in _SHARED:
            if values.pop(flag):
                setattr(session, flag, True)
        TABLES.set(bool(values.pop("table", False)))
        if TABLES.get() and values.get("json"):
            raise UsageError("--table and --json exclude each other", remedy="give one of them")
        KEEP.set(None if values.pop("no_keep", not keeps) else partial(_keep, session))
        session.label = ctx.command_path
        session.resumes = resumes
        session.explicit = frozenset(
            name for name in ctx.params if _source(ctx, name) == "COMMANDLINE"
        )
        for param in ctx.command.params:
            if param.name in annotations:
                value = checked_value(param, annotations[param.name], values[param.name])
                values[param.name] = value
        if session.verbose:
            _say_settings(session, ctx)
        started = time.perf_counter()
        token = IN_COMMAND.set(True)
        try:
            if public:
                call = public.call(ctx, values, session)
                show(session, call, **{name: values[name] for name in annotations})
            else:
                show(session, **values)
        finally:
            IN_COMMAND.reset(token)
        if session.verbose:
            _say_cost(session, time.perf_counter() - started)

    keyword = inspect.Parameter.KEYWORD_ONLY
    extra: list[tuple[str, Any]] = []
    if tables and "json" in annotations:
        extra.append(("table", Table))
    if keeps:
        extra.append(("no_keep", NoKeep))
    parameters = [
        inspect.Parameter("ctx", keyword, annotation=typer.Context),
        *(public.parameters if public else ()),
        *(each.replace(kind=keyword) for each in own),
        *(
            inspect.Parameter(flag, keyword, default=False, annotation=annotation)
            for flag, annotation in (*extra, *_SHARED)
        ),
    ]
    parameters.sort(key=lambda each: not _is_argument(each))  # first in help
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__doc__ = "\n\n".join(
        part for part in (public.help if public else "", inspect.getdoc(show)) if part
    )
    return run


def _is_argument(parameter: inspect.Parameter) -> bool:
    facts = get_args(parameter.annotation)[1:]
    return any(isinstance(each, typer.models.ArgumentInfo) for each in facts)


def _keep(session: Session, rows: Sequence[Mapping[str, Any]]) -> None:
    from modtok_cli.cli.results import keep_rows

    keep_rows(session, rows)


def checked_value(param: Any, annotation: Any, value: Any) -> Any:
    """The value of a parameter: `-` of an option marked `STDOUT` becomes None.

    Raises:
        UsageError: `-` for an option that takes a path only, or an integer beyond 64 bits.
    """
    if type(value) is int and abs(value) >= 2**63:
        raise UsageError("the number is out of range", where=param.opts[-1])
    if isinstance(value, Path) and str(value) == "-" and param.param_type_name == "option":
        if STDOUT not in get_args(annotation)[1:]:
            raise UsageError(
                "- (standard input or output) is not supported here",
                where="/".join(param.opts),
                remedy="give a path",
            )
        return None
    return value


def _source(ctx: typer.Context, name: str) -> str | None:
    """Source of a parameter's value, as click names it."""
    source = ctx.get_parameter_source(name)
    return None if source is None else source.name


def _say_settings(session: Session, ctx: typer.Context) -> None:
    """Print one line per option: its value and its source."""
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
