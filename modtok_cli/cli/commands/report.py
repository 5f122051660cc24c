"""`modtok report`: one HTML page with all measurements of a workspace."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from modtok_cli.cli.command import command
from modtok_cli.cli.options import Force, Json, Output
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.cli.session import Session

COLUMNS = (
    Column("section", "section"),
    Column("pictures", "plots", "int"),
    Column("tables", "tables", "int"),
)

Workspace = Annotated[
    Path,
    Argument(metavar="WORKSPACE", help="Directory with tokenizers, results/ and studies/."),
]


@command(
    "report",
    examples="""
    # measure, run a study, then write the report
    modtok nsl -t tokenizer -t tokenizer@each flores/
    modtok study scaling
    modtok report -o report.html
    # another workspace
    modtok report ~/languages -o languages.html
    """,
)
def report(
    session: Session,
    workspace: Workspace = Path(),
    output: Output = Path("report.html"),
    force: Force = False,
    json: Json = False,
) -> None:
    """Write an HTML report of the measurements of a workspace.

    Shows every modular tokenizer and every JSONL result file in the workspace, results/ and
    studies/: plots, tables, commands and signatures. nsl, fairness, check, origin and eval
    keep their rows in results/. The page is one HTML file without external resources.
    """
    from modtok_cli.reports.report import report

    path = output or Path("report.html")
    rows = report(workspace, path, force=force, progress=session.progress)
    emit_rows(rows, COLUMNS, title="Report", json=json, caption=str(path))
    session.say(f"wrote {path}")
