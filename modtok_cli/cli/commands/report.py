"""`modtok report`: one HTML page with all measurements of a workspace."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import emit_rows, parse_columns
from modtok_cli.reports.report import report

COLUMNS = parse_columns("section, pictures=plots:int, tables:int")


@command(
    "report",
    report,
    examples="""
    # measure, then write the report
    modtok nsl -t tokenizer -t tokenizer@each flores/
    modtok origin flores/
    modtok report -o report.html
    # another workspace
    modtok report ~/languages -o languages.html
    """,
)
def show(call: Call, json: Json = False) -> None:
    rows = call()
    path = str(call.value("output"))
    emit_rows(rows, COLUMNS, title="Report", json=json, caption=path)
    call.say(f"wrote {path}")
