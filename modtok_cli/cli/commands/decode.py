"""`modtok decode`: token ids → text."""

import orjson

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import emit_chunks
from modtok_cli.tokenizer.encoding.lines import decode


@command(
    "decode",
    decode,
    tables=False,
    examples="""
    modtok encode -t tokenizer@fr text.txt | modtok decode -t tokenizer@fr
    # ids of the full vocabulary, as written by encode --global-ids
    echo '[301, 542, 99]' | modtok decode
    """,
)
def show(call: Call, json: Json = False) -> None:
    texts = call()
    if not json:
        emit_chunks(text + b"\n" for text in texts)
        return
    rows = ({"text": text.decode("utf-8", "replace")} for text in texts)
    emit_chunks(orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows)
