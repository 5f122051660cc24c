"""Options of the commands that hand their tasks to an executor."""

from __future__ import annotations

from typing import Annotated, Literal

from typer import Option

from modtok_cli.base.errors import UsageError

ExecutorKind = Literal["local", "slurm", "ray"]

Workers = Annotated[
    int | None,
    Option("--workers", metavar="N", min=1, help="Tasks at a time; locally one a core by default."),
]
ExecutorOptions = Annotated[
    list[str] | None,
    Option(
        "--executor-option",
        metavar="KEY=VALUE",
        help="Passed on to datatrove's executor, such as partition=cpu. May be given several "
        "times.",
    ),
]


def split_options(options: list[str] | None) -> dict[str, str]:
    """Options by their keys.

    >>> split_options(["partition=cpu", "time=10:00:00"])
    {'partition': 'cpu', 'time': '10:00:00'}

    Raises:
        UsageError: one without a key or "=".
    """
    found = {}
    for text in options or ():
        key, equals, value = text.partition("=")
        if not (key.isidentifier() and equals):
            raise UsageError(f"--executor-option {text!r} is not KEY=VALUE")
        found[key] = value
    return found
