"""`--plot FILE` and `--plot -`: plots in a file or as text in the terminal."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from modtok_cli.base.errors import UsageError
from modtok_cli.base.extras import require
from modtok_cli.cli.output import TABLES, escape_controls


def check_plot(plot: str | None) -> None:
    """Check the --plot value before the work starts.

    Raises:
        UsageError: the name does not end in .svg or .png, and is not "-"; or there is no matplotlib
            for it.
    """
    if plot is None or plot == "-":
        return
    if Path(plot).suffix.lower() not in (".svg", ".png"):
        raise UsageError(f"expected FILE.svg, FILE.png or -, got {plot!r}", where="--plot")
    require("a plot in a file, unlike --plot -,", plot=("matplotlib",))


def emit_plot(
    say: Callable[[str], None], plot: str | None, rows: Sequence[Mapping[str, Any]], kind: str
) -> None:
    """Draw the charts of a `kind` of rows to a file, or as text beside the table.

    `kind` is a key of `reports.kinds.kinds()`; `say` is told of the file.
    """
    if plot is None:
        return
    from modtok_cli.reports.charts import is_empty
    from modtok_cli.reports.kinds import kinds

    charts = kinds()[kind].charts(rows)
    if plot != "-":
        from modtok_cli.reports.plot.figures import write_plot

        write_plot(charts, Path(plot))
        say(f"wrote {plot}")
        return
    from modtok_cli.reports.plot.terminal import to_text

    stream = sys.stdout if TABLES.get() else sys.stderr
    width = max(40, min(120, shutil.get_terminal_size().columns))
    for chart in charts:
        if not is_empty(chart):
            for line in to_text(chart, width):
                print(escape_controls(line), file=stream)
            print(file=stream)
