"""`modtok corpus world`: texts in invented languages about a world with known facts."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import emit_rows, parse_columns
from modtok_cli.studies.world.corpus import corpus_world

COLUMNS = parse_columns(
    "language, documents:int, bytes=text:bytes, facts=facts stated:int, own=by it alone:int"
)


@command(
    "corpus world",
    corpus_world,
    examples="""
    # four languages, 23 MB
    modtok corpus world -o world
    # no text in two languages
    modtok corpus world -o apart --quotes 0
    """,
)
def show(call: Call, json: Json = False) -> None:
    emit_rows(call(), COLUMNS, title=str(call.values.get("output")), json=json)
