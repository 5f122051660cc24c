"""`modtok cost`: parameters, KV cache, operations and time by tokenizer."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import emit_rows, parse_columns
from modtok_cli.model.cost.cost import cost

COLUMNS = parse_columns(
    "model, language=lang, tokenizer, vocabulary:int, parameters:int, "
    "share=vocabulary share:ratio, saved:ratio, kv_bytes_per_token=KV/token:bytes, "
    "token_flops=FLOPs/token:ratio"
)
TEXT_COLUMNS = parse_columns(
    "tokens:int, tokens_per_character=/char:ratio, kv_bytes_per_character=KV/char:bytes, "
    "kv_saved=KV saved:ratio, flops=FLOPs:ratio"
)
TIME_COLUMNS = parse_columns(
    "model, language=lang, tokenizer, vocabulary:int, tokens:int, flops=FLOPs:ratio, "
    "forward_seconds=forward:seconds, forward_ratio=ratio:ratio, "
    "token_seconds=per token:seconds, decode_ratio=ratio:ratio"
)


@command(
    "cost",
    cost,
    examples="""
    # the table of the paper: 24,000 tokens instead of 256,000
    modtok cost
    # a run: full vocabulary, then each language
    modtok cost runs/latest
    # tokenizers relative to monolingual ones, operations and cache of a text
    modtok cost gemma.json tokenizer@each --model 2.5b flores/
    # time of forward passes and decoding on this machine
    modtok cost --time runs/latest flores/fr.txt
    """,
)
def show(call: Call, json: Json = False) -> None:
    is_timed = call.value("time")
    if is_timed:
        require_models()
    rows = call()
    with_text = "tokens" in rows[0]
    columns = [*COLUMNS, *(TEXT_COLUMNS if with_text else ())]
    if not with_text:
        columns = [column for column in columns if column.key != "language"]
    base = "monolingual tokenizers" if with_text else "the first tokenizer"
    title = f"Cost (bfloat16), relative to {base}"
    emit_rows(rows, TIME_COLUMNS if is_timed else columns, title=title, json=json)
