"""`modtok bpe-concat`: naive concatenation of BPE tokenizers, the baseline."""

from __future__ import annotations

from typing import Annotated

from typer import Argument

from modtok_cli.base.errors import UsageError
from modtok_cli.cli.command import command
from modtok_cli.cli.options import Force, Json, Output
from modtok_cli.cli.output import emit_bytes, emit_object, is_stdout_terminal
from modtok_cli.cli.session import Session

Parts = Annotated[
    list[str],
    Argument(metavar="TOKENIZER", help="BPE tokenizers in the order to append them."),
]


@command(
    "bpe-concat",
    examples="""
    # French appended to Finnish, both learned alone
    modtok bpe --langs fi,fr
    modtok bpe-concat bpe/fi.json bpe/fr.json -o fi-fr.json
    # what that does to French
    modtok bpe-concat bpe/fi.json bpe/fr.json | modtok nsl fr.txt --references bpe
    """,
)
def bpe_concat(
    session: Session,
    tokenizers: Parts,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Append BPE tokenizers to each other, naively.

    The first stays as it is; of each further one come the tokens and merges that are not
    there yet. Early merges of one language then block tokens of another: this is the
    baseline that shows why sequential training (bpe-seq) exists, not a good tokenizer.

    The result is a plain tokenizer.json, on standard output or in the file of -o.
    """
    if output is None and json:
        raise UsageError("--json needs -o", remedy="standard output has the tokenizer.json")
    if output is None and is_stdout_terminal():
        raise UsageError(
            "a tokenizer.json is nothing for a terminal",
            remedy="name a file with -o, or pipe it into modtok nsl",
        )
    if output is not None and output.exists() and not force:
        raise UsageError(
            "is there already", where=str(output), remedy="choose another -o, or --force"
        )
    from modtok_cli.base.files import write_bytes
    from modtok_cli.construct.bpe_concat import bpe_concat

    made = bpe_concat(tokenizers)
    session.say(f"{made.size:,} tokens, {made.unreached:,} of them can never be formed")
    if output is None:
        emit_bytes(made.data)
    else:
        write_bytes(output, made.data)
        session.say(f"wrote {output}")
        if json:
            row = {"output": str(output), "size": made.size, "unreached": made.unreached}
            emit_object(row)
