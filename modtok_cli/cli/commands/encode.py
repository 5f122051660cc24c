"""`modtok encode`: text → token ids, as JSON lines or as flat files."""

import orjson

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import emit_chunks, emit_rows, parse_columns
from modtok_cli.tokenizer.encoding.lines import encode

_COLUMNS = parse_columns("output, documents:int, tokens:int, bytes=text:bytes, dtype=type")

_COUNTS = parse_columns("text, documents:int, tokens:int, bytes:bytes")


@command(
    "encode",
    encode,
    tables=False,
    examples="""
    # one document per line; one JSON line of ids per document
    echo "Un très long mot" | modtok encode --langs fr
    # show the tokens
    modtok encode -t tokenizer@fr,en --tokens flores.txt
    # round trip
    modtok encode -t tokenizer@fr text.txt | modtok decode -t tokenizer@fr
    # number of tokens of each file
    modtok encode --count -t tokenizer@fr,en texts
    # a corpus for Megatron (--data-path ids/tokens) and nanoGPT
    modtok encode --langs fr data/fr.jsonl --format bin -o ids
    """,
)
def show(call: Call, json: Json = False) -> None:
    rows = call()
    if call.values.get("count"):
        emit_rows(list(rows), _COUNTS, title="Tokens", json=json)
        return
    if "output" in call.values:
        emit_rows(list(rows), _COLUMNS, title="encoded", json=json)
        return
    option = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_APPEND_NEWLINE
    emit_chunks(orjson.dumps(row, option=option) for row in rows)
