"""`modtok bpe-concat`: naive concatenation of BPE tokenizers, a baseline."""

from modtok_cli.base.files import check_suffix, write_bytes
from modtok_cli.base.parameters import Force
from modtok_cli.cli.command import Call, Json, OutputOrStdout, command
from modtok_cli.cli.output import check_output, emit_chunks, emit_each
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
    remedy = "write to a file with -o, or pipe the output into modtok nsl"
    check_output(output, force, remedy, json=json)
    if output is not None:
        check_suffix(output, [".json"])
    made = call()
    call.say(f"{made.size:,} tokens, {made.unreached:,} of them unreachable")
    if output is None:
        emit_chunks([made.data])
    else:
        write_bytes(output, made.data)
        call.say(f"wrote {output}")
        if json:
            row = {"output": str(output), "size": made.size, "unreached": made.unreached}
            emit_each([row])
