"""`modtok origin`: languages that the tokens of a text belong to."""

from modtok_cli.cli.command import Call, Json, Plot, command
from modtok_cli.cli.output import emit_tables, parse_columns
from modtok_cli.cli.plotting import emit_plot
from modtok_cli.measure.origin import origin

COLUMNS = parse_columns(
    "text, language=lang, tokens:int, outside=outside %:ratio, several=shared %:ratio, "
    "most=mainly from"
)


@command(
    "origin",
    origin,
    keeps=True,
    examples="""
    # the full vocabulary
    modtok origin flores/
    # the union of three languages
    modtok origin -t tokenizer@en,fi,fr fi.txt fr.txt
    # plot the matrix of source and added languages
    modtok origin flores/ --plot origin.svg
    """,
)
def show(call: Call, plot: Plot = None, json: Json = False) -> None:
    rows = call(tokenizer=call.value("tokenizer"))
    shown = [
        {
            **row,
            "outside": 100 * row["outside"],
            "several": 100 * row["several"],
            "most": _most(row["exclusive"]),
        }
        for row in rows
    ]
    emit_tables(rows, [("Tokens outside the language's subtokenizer", shown, COLUMNS)], json=json)
    emit_plot(call.say, plot, rows, "origin")


def _most(exclusive: dict[str, float]) -> str:
    ordered = sorted(exclusive.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {100 * share:.2f}" for name, share in ordered[:3] if share)
