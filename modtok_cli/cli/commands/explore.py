"""`modtok explore`: a page that shows how typed text is segmented."""

from typing import Annotated

from modtok_cli.base.option import Option
from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.commands.nsl import WORKSPACE_TOKENIZER
from modtok_cli.cli.output import emit_each
from modtok_cli.reports.explore.page import explore

Named = Annotated[
    list[str] | None,
    Option(
        "Tokenizers, as in -t.",
        argument=True,
        metavar="TOKENIZER",
        hub="tokenizer",
        complete="tokenizers",
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
def show(call: Call, names: Named = None, json: Json = False) -> None:
    specs = [*(names or []), *call.values.get("tokenizers", [])]
    row = call(tokenizers=specs or [WORKSPACE_TOKENIZER])
    call.say(f"wrote {row['output']} ({row['bytes'] / 1e6:.1f} MB); open it in a browser")
    if json:
        emit_each([row])
