"""The command tree and the entry point of `modtok`.

Only light modules are imported here. A command imports its package when it runs, which keeps
`modtok --help` fast.
"""

import inspect
import os
import pkgutil
import signal
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from modtok_cli.base.version import __version__
from modtok_cli.cli import commands
from modtok_cli.cli.command import (
    REGISTERED,
    SHARED,
    Registered,
    as_parameter,
    session_of,
    with_parameters,
)
from modtok_cli.cli.execute import run
from modtok_cli.cli.framework import Group
from modtok_cli.cli.names import ORDER
from modtok_cli.cli.settings_file import named

_EXAMPLES = """
modtok bpe-seq --langs en,fi,fr -k 24000
modtok extract --langs fr,en | modtok nsl flores.txt
modtok encode -t tokenizer@fr,en < text.txt
"""

app = typer.Typer(
    name="modtok",
    cls=Group,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EXAMPLES,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: it is read in pipes too, and rich costs 50 ms
    pretty_exceptions_enable=False,
)
corpus = typer.Typer(cls=Group, no_args_is_help=True, rich_markup_mode=None)
evaluate = typer.Typer(cls=Group, no_args_is_help=True, rich_markup_mode=None)


def _print_version(ctx: typer.Context, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        typer.echo(f"modtok {__version__}")
        raise typer.Exit


def _modtok(*, ctx: typer.Context, version: bool, **shared: bool) -> None:
    """Learn, measure and use modular multilingual tokenizers, and train models on them.

    The current directory is the workspace: text in data/, the tokenizer in tokenizer/,
    runs in runs/, default options in modtok.toml. "modtok help COMMAND" shows the help of a
    command.
    """
    from modtok_cli.base.errors import UsageError
    from modtok_cli.cli.settings_file import ignored_variables, load_settings

    session = session_of(ctx)
    for name, is_on in shared.items():
        setattr(session, name, is_on)
    try:
        try:
            ctx.default_map = load_settings(ctx.command)
        except UsageError:  # [default] may have what none of these commands knows
            ctx.default_map = load_settings(command_tree())
    except UsageError as error:
        # Help and doctor must work with invalid settings.
        if ctx.invoked_subcommand == "doctor":
            session.settings_error = str(error)
        elif not {"-h", "--help"}.intersection(session.args):
            raise
    variables = ignored_variables(ORDER)
    if variables:
        session.progress.warn(
            f"{', '.join(variables)}: variables do not set options; use modtok.toml or flags"
        )


_VERSION = typer.Option(
    "-V", "--version", help="Print the version and exit.", is_eager=True, callback=_print_version
)
_version = inspect.Parameter(
    "version", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, _VERSION]
)
app.callback()(with_parameters(_modtok, [_version, *map(as_parameter, SHARED)]))


@corpus.callback()
def _corpus() -> None:
    """Build corpora, inspect them and count words."""


@evaluate.callback()
def _evaluate() -> None:
    """Evaluate a trained model under any inference vocabulary."""


_GROUPS = {"corpus": corpus, "eval": evaluate}


@cache
def command_tree(*only: str) -> Any:
    """Return the click command of the whole tree, or of a tree with some commands of `ORDER`."""
    modules = [module.name for module in pkgutil.iter_modules(commands.__path__)]
    for module in map(_module, only) if only else modules:
        import_module(f"{commands.__name__}.{module}")  # declares its command
    names = only or [*ORDER, *sorted(set(REGISTERED) - set(ORDER))]
    return _tree_of([REGISTERED[name] for name in names])


def listing() -> Any:
    """Return the tree with what help lists: names, and the first lines of the files of commands."""
    listed = []
    for name in ORDER:
        path = Path(commands.__path__[0], f"{_module(name)}.py")
        with path.open(encoding="utf-8") as stream:
            _, _, summary = stream.readline().partition(": ")
        summary = summary.strip().strip('"')

        def stub() -> None:
            """Never called: help ends before."""

        stub.__doc__ = summary[:1].upper() + summary[1:]
        listed.append(Registered(tuple(name.split()), stub, ""))
    return _tree_of(listed)


def _tree_of(registered: Sequence[Registered]) -> Any:
    app.registered_groups.clear()
    for group in (app, *_GROUPS.values()):
        group.registered_commands.clear()
    for name, group in _GROUPS.items():
        if any(command.words[0] == name for command in registered):
            app.add_typer(group, name=name)
    for command in registered:
        command.add_to(_GROUPS[command.words[0]] if len(command.words) > 1 else app)
    return typer.main.get_command(app)


def _module(name: str) -> str:
    return name.replace(" ", "_").replace("-", "_")


def _tree(args: Sequence[str]) -> Any:
    """Return the tree, or what a command line needs of it.

    Declaring all commands takes longer than encoding a line. modtok.toml is checked against the
    commands that it names, and against all if one does not fit.
    """
    if [word for word in args if word not in (*_GROUPS, "-h", "--help", "help")] == []:
        return listing()
    if args[:1] in (["-V"], ["--version"]):
        return command_tree("doctor")
    name = next((name for n in (1, 2) if (name := " ".join(args[:n])) in ORDER), None)
    return command_tree() if name is None else command_tree(*dict.fromkeys([name, *named(ORDER)]))


def main() -> NoReturn:
    """Entry point of the `modtok` script."""
    if "_MODTOK_COMPLETE" in os.environ:  # the tree of the words that the shell completes
        words = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
        run(_tree(words.split()[1:-1] or ["-"]), [])
    status = run(_tree(sys.argv[1:]), sys.argv[1:], command_tree)
    # The output is complete: Ctrl-C during interpreter shutdown ends the process quietly.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(status)
