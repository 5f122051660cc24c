"""Commands: the options of a public function, and a function that prints its result.

`@command("nsl", nsl, examples=…)` registers the command of a public function, which declares the
options; options of the command line only are declared by the function that prints, in the same
way. `-q`, `-v` and `--debug` are added to every command here.
"""

from __future__ import annotations

import inspect
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, ParamSpec, get_origin

import typer

from modtok_cli.base.errors import IN_COMMAND, ModtokError, UsageError
from modtok_cli.base.files import check_new, one_call
from modtok_cli.base.memory import peak_bytes
from modtok_cli.base.option import Option, each_option, options_of, parameters_of, signature_of
from modtok_cli.base.public import description_of, located, refuse_inputs
from modtok_cli.base.unused import leave_out
from modtok_cli.cli import completion
from modtok_cli.cli.framework import Command, source_of
from modtok_cli.cli.output import KEEP, TABLES
from modtok_cli.cli.plotting import check_plot
from modtok_cli.cli.session import Session
from modtok_cli.cli.tree import MORE

if TYPE_CHECKING:
    from modtok_cli.cli.progress_bar import CommandProgress

P = ParamSpec("P")
Json = Annotated[bool, Option("Write JSON lines to stdout, even on a terminal.")]
Plot = Annotated[
    str | None,
    Option(
        "Plot the result to FILE.svg or FILE.png; - plots in the terminal.",
        metavar="FILE",
        writes=True,
    ),
]
OutputOrStdout = Annotated[
    Path | None,
    Option(
        "Output file; standard output by default.",
        flags="-o --output",
        metavar="PATH",
        writes=True,
        stdout=True,
    ),
]


def _switch(name: str, help: str, flags: str = "") -> Option:
    return Option(help, name=name, flags=flags, kind=bool, default=False)


_TABLE = _switch("table", "Write tables to stdout, even to a pipe or file.")
_FORCE = _switch("force", "Overwrite an existing output.")
_NO_KEEP = _switch("no_keep", "Do not keep the rows in results/ of the workspace.")
SHARED = (
    _switch("quiet", "Print only warnings and errors.", "-q --quiet"),
    _switch("verbose", "Print settings, run time and peak memory.", "-v --verbose"),
    _switch("debug", "Print the traceback of an error."),
)
_SHARED_NAMES = {option.name for option in SHARED}
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
        values: arguments by parameter, given on the command line or in
            modtok.toml; the function has the defaults. A parameter that stands for a
            dataclass of options is in `groups` too.
        groups: the options of such dataclasses, by parameter.
        explicit: parameters and options of the command line.
    """

    declaration: Declaration
    session: Session
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

    def leave_out_unused(self, others: dict[str, Any]) -> None:
        """Refuse options of the command line that this call does not use, and leave out what
        modtok.toml says of them: it is for other calls. `others`: values of `show`.
        """
        options = {name: each for name, _, each in self.declaration.options()}
        values = {**self.values, **others}
        for group in self.groups.values():
            values |= group
        left = leave_out(
            self.declaration.function,
            {**options, **self.declaration.own},
            values,
            self.explicit.__contains__,
        )
        self.leave_out(left)
        for name in left & others.keys():
            del others[name]

    def leave_out(self, names: Iterable[str]) -> None:
        """Leave out what modtok.toml says of these options: it is for other calls."""
        others = {*names} - self.explicit
        for values in (self.values, *self.groups.values()):
            for name in others:
                values.pop(name, None)

    @property
    def progress(self) -> CommandProgress:
        """Receives progress, notes and warnings."""
        return self.session.progress

    def say(self, text: str) -> None:
        """Print one line on standard error, unless --quiet."""
        self.progress.note(text)


class Declaration:
    """The declarations of a public function, and of `show`, which prints its result."""

    def __init__(
        self,
        show: Callable[..., None],
        function: Callable[..., Any],
        added: Sequence[Option] = (),
        first: str = "",
    ) -> None:
        self._first = first.split()
        self.function = inspect.unwrap(function)
        self.declared = parameters_of(function)
        self._every = tuple(each_option(function))
        self.takes_progress = "progress" in signature_of(function).parameters
        self.own = options_of(show)
        self._added = added
        self._required = {
            (each, name)
            for each in (self.function, show)
            for name, parameter in signature_of(each).parameters.items()
            if parameter.default is parameter.empty
        }
        self._show = show
        names = {
            each.name: each.metavar if each.argument else "/".join(each.all_flags)
            for each in self.declared.values()
            if isinstance(each, Option)
        }
        text = _QUOTED.sub(lambda word: names.get(word[1], word[1]), description_of(function))
        self.help = "\n\n".join(part for part in (text, inspect.getdoc(show)) if part)

    def parameters(self) -> Iterator[tuple[Option, inspect.Parameter]]:
        """Options with their parameters for typer: arguments, then options as declared.

        Those of `first` come before the others, which are in a panel of their own then.
        """
        options = [(self.function, option) for _, _, option in self.options()]
        options += [(self._show, option) for option in (*self.own.values(), *self._added)]
        places = {name: place for place, name in enumerate(self._first)}
        for owner, option in sorted(
            options,
            key=lambda each: (not each[1].argument, places.get(each[1].parameter, len(places))),
        ):
            is_required = option.argument and (owner, option.name) in self._required
            if places and not option.argument:
                panel = "Options" if option.parameter in places else MORE
                option = replace(option, panel=panel)
            yield option, as_parameter(option, is_required=is_required)

    def options(self) -> Iterator[tuple[str, str | None, Option]]:
        """As `each_option`, without those that have no flag."""
        for name, group, option in self._every:
            if not (option.python_only or option.recipe_only):
                yield name, group, option

    def keys(self) -> Iterator[Option]:
        """Keys of a recipe that have no flag."""
        return (option for _, _, option in self._every if option.recipe_only)

    def call(self, ctx: typer.Context, session: Session) -> tuple[Call, dict[str, Any]]:
        """The call that the command line says, and the arguments of `show` besides."""
        groups: dict[str, dict[str, Any]] = {
            name: {} for name, each in self.declared.items() if not isinstance(each, Option)
        }
        values: dict[str, Any] = {}
        others: dict[str, Any] = {}
        explicit = set()
        for name, group, option in (
            *self.options(),
            *((name, "", option) for name, option in self.own.items()),
        ):
            source, value = source_of(ctx, option.parameter), ctx.params[option.parameter]
            if source == "COMMANDLINE":
                explicit.add(name)
            if source in (None, "DEFAULT") or value is None:
                continue
            place = values if group is None else groups[group] if group else others
            if not group:  # a run resolves its own, which its recipe may name
                value = located(option, value, session.progress)
            place[name] = not value if option.is_inverted else value
        return Call(self, session, values, groups, frozenset(explicit)), others


def as_parameter(option: Option, *, is_required: bool = False) -> inspect.Parameter:
    """An option as a parameter that typer understands: a switch, a choice, text or texts."""
    default = None if callable(option.default) else option.default
    facts: dict[str, Any] = {"metavar": option.metavar or None, "help": option.help}
    flags = option.flags.split() or [option.flag]
    kind = option.kind if option.kind is bool or get_origin(option.kind) in (list, Literal) else str
    if option.is_inverted:
        default = not default
    elif kind is bool and not option.flags and (option.changeable or default is True):
        # There must be a way to turn it off where it is on, as it may be in a resumed run.
        flags = [f"{option.flag}/--no-{option.flag[2:]}"]
    if option.complete:
        facts["autocompletion"] = getattr(completion, option.complete)
    if isinstance(default, tuple):
        default = list(default) or None
    optional: Any = kind if default is not None or is_required else kind | None
    if option.argument:
        annotation: Any = Annotated[optional, typer.Argument(**facts)]
    else:
        section = _PANELS.get(option.section, option.section.capitalize())
        facts["rich_help_panel"] = option.panel or section or None
        if kind is bool and default is None:
            facts["show_default"] = False
        annotation = Annotated[optional, typer.Option(*flags, **facts)]
    return inspect.Parameter(
        option.parameter,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if is_required else default,
        annotation=annotation,
    )


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
    function: Callable[..., Any],
    *,
    examples: str,
    **kinds: Any,
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Register the command `words` of a public function; returns the decorated function.

    The command has the options of the function, whose docstring is the help. The
    decorated function `f(call, …)` calls it and prints the result; what `f` declares and documents
    besides is of the command line only. `kinds` are as in `declare`.
    """

    def register(show: Callable[P, None]) -> Callable[P, None]:
        REGISTERED[words] = declare(words, show, function, examples, **kinds)
        return show

    return register


def declare(
    words: str,
    show: Callable[..., None],
    function: Callable[..., Any],
    examples: str,
    *,
    tables: bool = True,
    resumes: bool = False,
    keeps: bool = False,
    first: str = "",
) -> Registered:
    """A command as typer needs it.

    One with `--json` has `--table` too, unless its results are no `tables`. One that `resumes`
    keeps what it has finished when it is interrupted; one that `keeps` writes its rows to
    `results/` of a workspace. `first`: options that help shows first, the others under "More
    options".
    """
    own = options_of(show)
    writes = [option for option in own.values() if option.writes]
    added = [_TABLE] if tables and "json" in own else []
    added += [_FORCE] if writes and "force" not in {*own, *parameters_of(function)} else []
    declaration = Declaration(show, function, [*added, *[_NO_KEEP] * keeps, *SHARED], first)

    def run(**values: Any) -> None:
        ctx: typer.Context = values["ctx"]
        session = session_of(ctx)
        for option in SHARED:
            if values[option.name]:
                setattr(session, option.name, True)
        TABLES.set(bool(values.get("table")))
        if TABLES.get() and values.get("json"):
            raise UsageError("--table and --json exclude each other", remedy="give one of them")
        KEEP.set(None if values.get("no_keep", True) else session.keep)
        session.label = ctx.command_path
        session.resumes = resumes
        call, others = declaration.call(ctx, session)
        if session.verbose:
            _say_settings(session, ctx)
        check_plot(others.get("plot"))
        refuse_inputs((option, ctx.params[option.parameter]) for option, _ in declared)
        started = time.perf_counter()
        token = IN_COMMAND.set(True)
        try:
            with one_call():
                for option in writes:
                    if (path := others.get(option.name)) not in (None, "-"):
                        check_new(Path(path), force=values["force"], flag=option.flag)
                call.leave_out_unused(others)
                show(call, **others)
        except ModtokError as error:
            error.rename(_typed((option for option, _ in declared), session.args))
            raise
        finally:
            IN_COMMAND.reset(token)
        if session.verbose:
            _say_cost(session, time.perf_counter() - started)

    declared = list(declaration.parameters())
    run.__doc__ = declaration.help
    run.options = {option.parameter: option for option, _ in declared}  # type: ignore[attr-defined]
    run.keys = tuple(declaration.keys())  # type: ignore[attr-defined]
    with_parameters(run, [parameter for _, parameter in declared])
    return Registered(tuple(words.split()), run, examples, declaration)


def _typed(options: Iterable[Option], args: Sequence[str]) -> dict[str, str]:
    """Flags of an option that was given by another one of its flags: `{"--budget": "-k"}`."""
    names: dict[str, str] = {}
    for option in options:
        alike = option.flags.split() if "/" not in option.flags else []
        for flag in alike:
            is_short = not flag.startswith("--")
            if any(
                word == flag or word.startswith(flag if is_short else f"{flag}=") for word in args
            ):
                names.update(dict.fromkeys(alike, flag))
                break
    return names


def with_parameters(
    function: Callable[..., None], parameters: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """`function(ctx, **values)` with parameters that typer reads."""
    ctx = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    every = [ctx, *parameters]
    function.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    function.__annotations__ = {parameter.name: parameter.annotation for parameter in every}
    return function


def _say_settings(session: Session, ctx: typer.Context) -> None:
    origin = {
        "COMMANDLINE": "command line",
        "DEFAULT_MAP": "modtok.toml",
        "DEFAULT": "default",
    }
    for name, value in ctx.params.items():
        source = source_of(ctx, name)
        if value is not None and source is not None and name not in _SHARED_NAMES:
            session.say(f"setting {name} = {value!s} ({origin.get(source, source)})")


def _say_cost(session: Session, seconds: float) -> None:
    session.say(f"{session.label}: {seconds:.2f} s, peak memory {peak_bytes() / 2**20:.0f} MiB")
