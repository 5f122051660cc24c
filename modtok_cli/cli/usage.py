"""What is wrong with a command line, in modtok's words instead of the framework's.

The framework's exceptions are known by their class names and fields; an unknown one keeps its
own message.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

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
    if message.startswith("No such command"):
        name, *near = _QUOTED.findall(message)
        return f"unknown command {name}{_perhaps(near)}"
    if message == "Missing command":
        return "a command is missing"
    if message.startswith("Got unexpected extra"):
        argument = _IN_BRACKETS.search(message)
        return f"unexpected argument: {argument[1]}" if argument else message
    return message.replace("Value error, ", "")


def _perhaps(names: Sequence[str]) -> str:
    return f"; did you mean {' or '.join(sorted(names))}?" if names else ""


def _name(param: Any) -> str:
    """`-k/--budget`, or `TEXT` of an argument."""
    if param.param_type_name == "argument":
        return str(param.metavar or param.name.upper())
    return "/".join(param.opts)
