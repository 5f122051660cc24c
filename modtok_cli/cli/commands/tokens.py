"""`modtok tokens`: ids of the tokens of some languages, for other programs."""

from pathlib import Path
from typing import Annotated

from modtok_cli.base.files import write_bytes
from modtok_cli.base.option import Option
from modtok_cli.base.parameters import Force
from modtok_cli.cli.command import Call, OutputOrStdout, command
from modtok_cli.cli.output import check_output, emit_chunks
from modtok_cli.inference.hf.slice import FORMATS, check_format, rows_of, tokens

ListFormat = Annotated[str, Option(f"List format: {', '.join(FORMATS)}.", metavar="NAME")]


@command(
    "tokens",
    tokens,
    tables=False,
    examples="""
    # ids of the French tokens, one per line
    modtok tokens tokenizer --langs fr > fr.txt
    # of any model, by the text in data/, for requests to llama.cpp's server
    modtok tokens model/ --langs fr --format llama.cpp -o fr.json
    # token map for speculative decoding in SGLang: the 16,000 most useful
    modtok tokens model/ --langs fr,en -k 16000 --format sglang -o fr-en.pt
    """,
)
def show(
    call: Call,
    format: ListFormat = "ids",
    output: OutputOrStdout = None,
    force: Force = False,
) -> None:
    """The formats vllm and llama.cpp are fields of a request; sglang is a file for
    --speculative-token-map.
    """
    if output is not None or format == "sglang":
        check_output(output, force, "write to a file with -o")
    check_format(format)  # before any text is read
    ids, rows = call(), rows_of(Path(call.value("model")))
    content = FORMATS[format](ids, rows)
    if output is None:
        emit_chunks([content])
    else:
        write_bytes(output, content)
        call.say(f"wrote {len(ids):,} of {rows:,} ids to {output}")
