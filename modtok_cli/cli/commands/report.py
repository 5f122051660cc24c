"""`modtok report`: one page of everything measured in a workspace."""

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
    Column("pictures", "pictures", "int"),
    Column("tables", "tables", "int"),
)

Workspace = Annotated[
    Path,
    Argument(metavar="WORKSPACE", help="Directory with tokenizers, results/ and studies/."),
]


@command(
    "report",
    examples="""
    # save measurements, run a study, then put all on a page
    modtok nsl -t tokenizer -t tokenizer@each flores/ > results/nsl.jsonl
    modtok study scaling
    modtok report -o report.html
    # of another workspace
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
    """Put tables and pictures of a workspace on one page.

    It shows every modular tokenizer there, and every file of rows in the workspace, its
    results/ and its studies/: pictures, tables, the command and the signatures behind
    them. The page is one HTML file that loads nothing.
    """
    from modtok_cli.measure.report.report import report

    place = output or Path("report.html")
    rows = report(workspace, place, force=force, progress=session.progress)
    emit_rows(rows, COLUMNS, title="Report", json=json, caption=str(place))
    session.say(f"wrote {place}")
