"""`modtok explore`: a page that shows how typed text is segmented."""

from typing import Annotated

import typer

from modtok_cli.cli import completion
from modtok_cli.cli.command import command
from modtok_cli.cli.commands.nsl import WORKSPACE_TOKENIZER
from modtok_cli.cli.declaration import Call
from modtok_cli.cli.options import Json
from modtok_cli.cli.output import emit_object
from modtok_cli.cli.session import Session
from modtok_cli.reports.explore.page import explore

Named = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="TOKENIZER",
        autocompletion=completion.tokenizers,
        help="Tokenizers, as in -t.",
    ),
]


@command(
    "explore",
    explore,
    tables=False,
    examples="""
    # the tokenizer in tokenizer/: open explore.html in a browser
    modtok explore
    # beside other tokenizers, with Finnish and French chosen
    modtok explore tokenizer llama3.tiktoken --langs fi,fr -o page.html
    """,
)
def show(session: Session, call: Call, names: Named = None, json: Json = False) -> None:
    specs = [*(names or []), *call.values.get("tokenizers", [])]
    row = call(tokenizers=specs or [WORKSPACE_TOKENIZER])
    session.say(f"wrote {row['output']} ({row['bytes'] / 1e6:.1f} MB); open it in a browser")
    if json:
        emit_object(row)
