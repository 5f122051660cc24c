"""`modtok memory`: parameters and KV cache by tokenizer."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.output import emit_rows, parse_columns
from modtok_cli.inference.cost.memory import memory

COLUMNS = parse_columns(
    "model, tokenizer, vocabulary:int, parameters:int, share=vocabulary share:ratio, saved:ratio, "
    "kv_bytes_per_token=KV/token:bytes"
)
TEXT_COLUMNS = parse_columns(
    "language=lang, tokens_per_character=/char:ratio, kv_bytes_per_character=KV/char:bytes, "
    "kv_saved=KV saved:ratio"
)


@command(
    "memory",
    memory,
    examples="""
    # the table of the paper: 24,000 tokens instead of 256,000
    modtok memory
    # a run: full vocabulary, then each language
    modtok memory runs/latest
    # tokenizers relative to the first, with the cache size of a text
    modtok memory gemma.json tokenizer@each --scale 2.5b flores/
    """,
)
def show(call: Call, json: Json = False) -> None:
    rows = call()
    columns = COLUMNS + (TEXT_COLUMNS if "language" in rows[0] else ())
    emit_rows(rows, columns, title="Parameters and KV cache (bfloat16)", json=json)
