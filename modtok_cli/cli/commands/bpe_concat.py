"""`modtok bpe-concat`: naive concatenation of BPE tokenizers, a baseline."""

from __future__ import annotations

from modtok_cli.base.errors import UsageError
from modtok_cli.base.files import write_bytes
from modtok_cli.base.parameters import Force
from modtok_cli.cli.command import Call, Json, OutputOrStdout, command
from modtok_cli.cli.output import emit_bytes, emit_object, is_stdout_terminal
from modtok_cli.construct.bpe_concat import bpe_concat


@command(
    "bpe-concat",
    bpe_concat,
    tables=False,
    examples="""
    # append French to Finnish, each learned on its own
    modtok bpe --langs fi,fr
    modtok bpe-concat bpe/fi.json bpe/fr.json -o fi-fr.json
    # measure the result on French
    modtok bpe-concat bpe/fi.json bpe/fr.json | modtok nsl fr.txt --references bpe
    """,
)
def show(
    call: Call,
    output: OutputOrStdout = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """The result is a tokenizer.json, written to standard output or to the file given by -o."""
    if output is None and json:
        raise UsageError("--json requires -o, since the tokenizer is written to stdout")
    if output is None and is_stdout_terminal():
        raise UsageError(
            "standard output is a terminal",
            remedy="write to a file with -o, or pipe the output into modtok nsl",
        )
    if output is not None and output.exists() and not force:
        raise UsageError(
            "already exists", where=str(output), remedy="choose another -o or pass --force"
        )
    made = call()
    call.say(f"{made.size:,} tokens, {made.unreached:,} of them unreachable")
    if output is None:
        emit_bytes(made.data)
    else:
        write_bytes(output, made.data)
        call.say(f"wrote {output}")
        if json:
            row = {"output": str(output), "size": made.size, "unreached": made.unreached}
            emit_object(row)
