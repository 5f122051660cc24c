"""Options shared by several commands, each declared once.

A command declares `langs: Langs = None`; flags, help and type are defined here. A default of
`None` leaves the choice to the function behind the command.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from modtok_cli.cli import completion

STDOUT = "stdout"  # mark of an output option that accepts - for standard output
MAX_BUDGET = 2**31 - 1  # token ids are int32

if TYPE_CHECKING:
    pass

Langs = Annotated[
    str | None,
    Option(
        "--langs",
        metavar="LANG,...",
        autocompletion=completion.languages,
        help="Comma-separated languages.",
    ),
]
Output = Annotated[
    Path | None,
    Option("-o", "--output", metavar="PATH", help="Output file or directory."),
]
OutputOrStdout = Annotated[
    Path | None,
    Option("-o", "--output", metavar="PATH", help="Output file; standard output by default."),
    STDOUT,
]
Special = Annotated[
    list[str] | None,
    Option(
        "--special",
        metavar="TEXT",
        help="Special token to add to <|endoftext|> and <|pad|>. Repeatable.",
    ),
]
Force = Annotated[bool, Option("--force", help="Overwrite an existing output.")]
Json = Annotated[bool, Option("--json", help="Write JSON lines to stdout, even on a terminal.")]
NoKeep = Annotated[
    bool, Option("--no-keep", help="Do not keep the rows in results/ of the workspace.")
]
Table = Annotated[bool, Option("--table", help="Write tables to stdout, even to a pipe or file.")]
Plot = Annotated[
    str | None,
    Option(
        "--plot",
        metavar="FILE",
        help="Plot the result to FILE.svg or FILE.png; - plots in the terminal.",
    ),
]
Quiet = Annotated[bool, Option("-q", "--quiet", help="Print only warnings and errors.")]
Verbose = Annotated[
    bool, Option("-v", "--verbose", help="Print the effective settings, run time and peak memory.")
]
Debug = Annotated[bool, Option("--debug", help="Print the traceback of an error.")]
