"""What is wrong with a command line, in modtok's words instead of the framework's.

The framework's exceptions are known by their class names and fields; an unknown one keeps its
own message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from modtok_cli.cli.tree import SHOWN, choices_of, range_of, type_of

_KINDS = {int: "a whole number", float: "a number"}
_QUOTED = re.compile(r"'([^']*)'")
_IN_BRACKETS = re.compile(r"\((?!s\))(.*)\)$")


def explain_usage(error: Any) -> str:
    """One clause about a click error, without a full stop."""
    kind = type(error).__name__
    message = str(error.format_message()).rstrip(".")
    if kind == "NoSuchOption":
        return f"unknown option {error.option_name}{_perhaps(error.possibilities or ())}"
    if kind == "BadOptionUsage":
        lacks = "requires" in message
        return f"{error.option_name} {'needs a value' if lacks else 'takes no value'}"
    if kind == "MissingParameter":
        return f"{_name(error.param)} is missing"
    if kind == "BadParameter" and getattr(error, "param", None) is not None:
        return _bad_value(error, message)
    if message.startswith("No such command"):
        name, *near = _QUOTED.findall(message)
        return f"unknown command {name}{_perhaps(near)}"
    if message == "Missing command":
        return "a command is missing"
    if message.startswith("Got unexpected extra"):
        found = _IN_BRACKETS.search(message)
        return f"unexpected argument: {found[1]}" if found else message
    return message.replace("Value error, ", "")


def _perhaps(names: Sequence[str]) -> str:
    return f"; did you mean {' or '.join(sorted(names))}?" if names else ""


def _name(param: Any) -> str:
    """`-k/--budget`, or `TEXT` of an argument."""
    if param.param_type_name == "argument":
        return str(param.metavar or param.name.upper())
    return "/".join(param.opts)


def _bad_value(error: Any, message: str) -> str:
    """`-k/--budget: expected a whole number of at least 1, got 'x'`."""
    value = _value(error)
    expected = _expected(error.ctx.command, error.param, value)
    if not expected:
        return f"{_name(error.param)}: {message.partition(': ')[2] or message}"
    got = "" if value is None else f", got {value!r}"
    return f"{_name(error.param)}: expected {expected}{got}"


def _expected(command: Any, param: Any, value: str | None) -> str:
    """What a value must be; "" if only the framework knows."""
    annotation = type_of(command, param)
    choices = list(map(str, choices_of(annotation)))
    if choices:
        return " or ".join([", ".join(choices[:-1]), choices[-1]]) if choices[1:] else choices[0]
    if annotation not in _KINDS:
        return ""
    low, high = range_of(command, param)
    limits = [f"at least {low}"] if low is not None else []
    if high is not None and (high < SHOWN or len(value or "") >= len(str(high))):
        limits.append(f"at most {high}")
    return _KINDS[annotation] + (" of " if limits else "") + " and ".join(limits)


def _value(error: Any) -> str | None:
    """The rejected value, which only the validator knows."""
    details = getattr(error.__cause__, "errors", None)
    if callable(details):
        return str(details()[0].get("input"))
    found = _QUOTED.search(str(error.message))
    return found[1] if found else None
