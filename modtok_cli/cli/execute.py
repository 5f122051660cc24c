"""Run a command line; map exceptions to one line on standard error and an exit status.

0 success, 1 failure, 2 usage error, 130 Ctrl-C. A closed pipe is not a failure. Tracebacks are
printed only with --debug or MODTOK_DEBUG=1.
"""

import errno
import os
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from modtok_cli.base.errors import Exit, ModtokError
from modtok_cli.base.extras import missing_package
from modtok_cli.base.files import denied, is_there
from modtok_cli.base.interrupts import acknowledge
from modtok_cli.base.processes import report_to_launcher
from modtok_cli.base.public import ModtokWarning
from modtok_cli.base.suggestion import near
from modtok_cli.cli.framework import ClosedPipe, Interrupted
from modtok_cli.cli.names import MEANT, MEANT_OPTIONS
from modtok_cli.cli.output import one_line, output_error, say
from modtok_cli.cli.session import Session

_SHOW_WARNING = warnings.showwarning
_IN_BRACKETS = re.compile(r"\((?!s\))(.*)\)$")


def run(root: Any, args: Sequence[str], every: Callable[[], Any] | None = None) -> int:
    """Run the command line `args` (without the program name); returns the exit status.

    `root` has the command of `args`, and what `every` gives has all; by default `root` does.
    """
    if tuple(args[:1]) == ("help",):  # modtok help corpus count
        args = [*args[1:], "--help"]
    session = Session(args=tuple(args))
    with suppress(AttributeError, OSError, ValueError):  # closed, or another stream
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    threading.excepthook = partial(_thread_failed, session)
    warnings.showwarning = _warned
    try:
        status = _invoke(root, session)
        _flush()
        if acknowledge():  # a library dropped it, and the work came to its end
            raise KeyboardInterrupt
    except (ClosedPipe, BrokenPipeError):
        return Exit.OK
    except (Interrupted, KeyboardInterrupt):
        return _interrupted(session)
    except BaseException as error:
        if acknowledge():  # a library turned Ctrl-C into an error of its own
            return _interrupted(session)
        if isinstance(error, SystemExit):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":  # `modtok`, `modtok corpus`
            print(error, file=sys.stderr)
            return Exit.USAGE
        status, message = explain(error, root, session, every)
        if _wants_traceback(session) and status != Exit.USAGE:
            traceback.print_exception(error)
        _report(f"{error.label if isinstance(error, ModtokError) else 'error: '}{message}")
    finally:
        _abandon_output()
    return status


def _interrupted(session: Session) -> int:
    acknowledge()
    left = "repeat the command to continue" if session.resumes else "no partial output remains"
    _report(f"interrupted; {left}")
    return Exit.INTERRUPTED


def _report(message: str) -> None:
    """Print the message that ends the command; a rank leaves that to its launcher."""
    if not report_to_launcher(message):
        say(one_line(f"modtok: {message}"))


def _thread_failed(session: Session, failure: threading.ExceptHookArgs) -> None:
    """Report a failed library thread in one line.

    The command that waits for the thread notices the failure itself.
    """
    if _wants_traceback(session):
        threading.__excepthook__(failure)
    kind = failure.exc_type.__name__
    say(one_line(f"modtok: warning: a thread failed ({kind}: {failure.exc_value})"))


def _warned(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
    """Print a warning that no progress receives, of a plug-in, as the others; as Python else."""
    if issubclass(category, ModtokWarning):
        say(one_line(f"modtok: warning: {message}"))
    else:
        _SHOW_WARNING(message, category, *place, **more)


def _invoke(root: Any, session: Session) -> int:
    status = root.main(
        args=list(session.args), prog_name="modtok", standalone_mode=False, obj=session
    )
    return status if isinstance(status, int) else Exit.OK


def explain(
    error: BaseException, root: Any, session: Session, every: Callable[[], Any] | None = None
) -> tuple[int, str]:
    """Return the exit status and the message of `error`."""
    if isinstance(error, ModtokError):
        wants_help = error.exit_code == Exit.USAGE and error.remedy is None
        return error.exit_code, str(error) + (_see_help(root, session) if wants_help else "")
    if hasattr(error, "format_message"):  # errors of click
        return Exit.USAGE, _explain_usage(error, every or (lambda: root)) + _see_help(root, session)
    if _is_memory(error):
        return Exit.FAILED, f"out of memory; {memory_advice(_named(root, session.args)[1])}"
    if (lack := missing_package(error)) is not None:
        return lack.exit_code, str(lack)
    if (refusal := denied(error)) is not None:
        return Exit.FAILED, str(refusal)
    if isinstance(error, OSError) and error.strerror:
        if error.errno == errno.ENOSPC and not error.filename:
            return Exit.FAILED, str(output_error(error))
        where = f"{os.fsdecode(error.filename)}: " if error.filename else ""
        if not where and isinstance(error, FileNotFoundError):  # of os.getcwd
            return Exit.FAILED, "the current directory was removed; change to another one"
        return Exit.FAILED, f"{where}{error.strerror}"
    if "surrogates not allowed" in str(error):  # Python's and orjson's words
        return Exit.FAILED, "a file name or an argument is not valid UTF-8; rename the file"
    kind = type(error).__name__
    return Exit.FAILED, f"internal error ({kind}: {error}); run again with --debug and report it"


# Options that reduce the memory of a command, most effective first.
_LESS_MEMORY = {
    "--micro-batch": "a smaller --micro-batch",
    "--batch-size": "a smaller --batch-size",
    "--seq-length": "a smaller --seq-length",
    "--max-tokens": "a smaller --max-tokens",
    "--budget": "a smaller -k",
    "--langs": "fewer --langs",
    "--workers": "fewer --workers",
    "--threads": "fewer --threads",
}


def memory_advice(command: Any) -> str:
    """Say how a user can reduce the memory of a command: at most two of its own options."""
    flags = {flag for param in getattr(command, "params", ()) for flag in param.opts}
    fitting = [words for flag, words in _LESS_MEMORY.items() if flag in flags]
    choices = [*fitting[:2], "a machine with more memory"]
    return "use " + " or ".join([", ".join(choices[:-1]), choices[-1]] if fitting else choices)


def _is_memory(error: BaseException) -> bool:
    """Whether the cause is lack of memory; the type of the exception depends on the library."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    return isinstance(error, RuntimeError | ImportError | OSError | SystemError) and any(
        words in str(error).lower()
        for words in (
            "can't start new thread",
            "cannot allocate memory",
            "failed to map segment",
            "can't allocate memory",
        )
    )


def _see_help(root: Any, session: Session) -> str:
    words, _ = _named(root, session.args)  # not every error has a context
    return f'; try "{" ".join(words)} --help"'


def _named(root: Any, args: Sequence[str]) -> tuple[list[str], Any]:
    """The words that name a command, or the group that they stop at; options may be between."""
    words, here = ["modtok"], root
    for word in args:
        commands = getattr(here, "commands", {})
        if word in commands:
            words, here = [*words, word], commands[word]
        elif not word.startswith("-"):
            break
    return words, here


def _explain_usage(error: Any, every: Callable[[], Any]) -> str:
    """One clause about an error of the framework, in modtok's words if its class is known."""
    kind = type(error).__name__
    message = str(error.format_message()).rstrip(".")
    if kind == "NoSuchOption":
        key = _key_of(error)
        if key:
            return f"{error.option_name} is a key of a recipe; use {key}=VALUE"
        if meant := _meant(error):
            return f"unknown option {error.option_name}; use {meant}"
        others = _commands_with(error.option_name, every())
        if 0 < len(others) < 4:
            have = "has" if len(others) == 1 else "have"
            return f"unknown option {error.option_name} here; {', '.join(others)} {have} it"
        params = error.ctx.command.get_params(error.ctx)
        flags = [flag for param in params for flag in (*param.opts, *param.secondary_opts)]
        hint = _perhaps(error.option_name, flags)
        if not hint and any(param.metavar == "ARGUMENT" for param in params):  # modtok serve
            hint = f"; give options of vLLM after --, as in: -- {error.option_name}"
        return f"unknown option {error.option_name}{hint}"
    if kind == "BadOptionUsage":
        lacks = "requires" in message
        return f"{error.option_name} {'needs a value' if lacks else 'takes no value'}"
    if kind == "MissingParameter":
        is_argument = error.param.param_type_name == "argument"
        what = f": {error.param.help.rstrip('.')}" if is_argument and error.param.help else ""
        return f"{_name(error.param)} is missing{what}"
    if message.startswith("No such command"):
        name = message.removeprefix("No such command ").partition(". Did you mean ")[0][1:-1]
        if name in MEANT:
            return f"unknown command {name}; use modtok {MEANT[name]}"
        return f"unknown command {name}{_perhaps(name, error.ctx.command.commands)}"
    if message == "Missing command":
        return "a command is missing"
    if message.startswith("Got unexpected extra"):
        argument = _IN_BRACKETS.search(message)
        if argument is None:
            return message
        takes = {flag for param in error.ctx.command.params for flag in param.opts}
        hint = ""
        if is_there(argument[1]):
            hint = f"; give text with --data {argument[1]}" if "--data" in takes else ""
        elif "--langs" in takes and _are_languages(argument[1]):
            hint = f"; give languages with --langs {argument[1]}"
        return f"unexpected argument: {argument[1]}{hint}"
    return message


def _are_languages(text: str) -> bool:
    from modtok_cli.text.language_codes import names
    from modtok_cli.text.languages import Label

    return all(Label.of(code).language in names() for code in text.split(","))


def _commands_with(flag: str, root: Any) -> list[str]:
    """Return the commands that have an option."""
    from modtok_cli.cli.tree import nodes

    return [
        f"modtok {' '.join(node.path)}"
        for node in nodes(root)
        if not node.is_group and any(flag in line.flags for line in node.lines)
    ]


def _key_of(error: Any) -> str:
    """How to set the key of a recipe that an unknown option of pretrain names; "" for others."""
    if getattr(error.ctx, "info_name", "") != "pretrain":
        return ""
    from modtok_cli.training.settings import OPTIONS

    option = OPTIONS.get(error.option_name.lstrip("-").replace("-", "_"))
    return option.flag if option is not None and option.recipe_only else ""


def _meant(error: Any) -> str:
    """The options of a command that an unknown one stands for; "" if there are none."""
    params = error.ctx.command.get_params(error.ctx)
    names = {name for param in params for name in (*param.opts, param.metavar)}
    choices = MEANT_OPTIONS.get(error.option_name, ())
    return " or ".join(each for each in choices if each.split()[0] in names)


def _perhaps(name: str, names: Iterable[str]) -> str:
    by_letters = {each.lstrip("-"): each for each in names}
    close = [by_letters[each] for each in near(name.lstrip("-"), by_letters)]
    return f"; did you mean {' or '.join(close)}?" if close else ""


def _name(param: Any) -> str:
    """Return `-k/--budget`, or `TEXT` of an argument."""
    if param.param_type_name == "argument":
        return str(param.metavar or param.name.upper())
    return "/".join(param.opts)


def _wants_traceback(session: Session) -> bool:
    return session.debug or os.environ.get("MODTOK_DEBUG", "").lower() in {"1", "true", "yes", "on"}


def _flush() -> None:
    """Flush standard output while an error can still be reported."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output_error(error) from error


def _abandon_output() -> None:
    """Redirect standard streams that cannot be written to /dev/null.

    The interpreter flushes both at exit; on a closed pipe or a full disk it would print an
    error and change the exit status to 120.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            with suppress(OSError, ValueError, AttributeError):
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, stream.fileno())
                os.close(nothing)
