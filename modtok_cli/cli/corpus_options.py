"""Options of commands that run tasks on an executor."""

from __future__ import annotations

from typing import Annotated, Literal

from typer import Option

from modtok_cli.base.errors import UsageError

ExecutorKind = Literal["local", "slurm", "ray"]

Workers = Annotated[
    int | None,
    Option(
        "--workers", metavar="N", min=1, help="Number of parallel tasks; one per core by default."
    ),
]
ExecutorOptions = Annotated[
    list[str] | None,
    Option(
        "--executor-option",
        metavar="KEY=VALUE",
        allow_from_autoenv=False,  # may hold shell commands
        help="Option passed to the datatrove executor, such as partition=cpu. Repeatable.",
    ),
]


def split_options(options: list[str] | None) -> dict[str, str]:
    """Parse KEY=VALUE options.

    >>> split_options(["partition=cpu", "time=10:00:00"])
    {'partition': 'cpu', 'time': '10:00:00'}

    Raises:
        UsageError: an option without a valid key or "=".
    """
    found = {}
    for text in options or ():
        key, equals, value = text.partition("=")
        if not (key.isidentifier() and equals):
            raise UsageError(f"--executor-option: expected KEY=VALUE, got {text!r}")
        found[key] = value
    return found
