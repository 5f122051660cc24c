"""`modtok latency`: time of forward passes and decoding by tokenizer."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import emit_rows, parse_columns
from modtok_cli.inference.cost.latency import latency

COLUMNS = parse_columns(
    "model, language=lang, tokenizer, vocabulary:int, tokens:int, forward_seconds=forward:seconds, "
    "forward_ratio=ratio:ratio, token_seconds=per token:seconds, decode_ratio=ratio:ratio"
)


@command(
    "latency",
    latency,
    examples="""
    # full vocabulary and subtokenizers, relative to monolingual tokenizers
    modtok latency flores/fr.txt flores/fi.txt
    # model size and tokenizer of a run
    modtok latency runs/latest flores/fr.txt
    # an external tokenizer at two model sizes
    modtok latency gemma.json tokenizer@each --scale 0.5b --scale 1b fr.txt
    """,
)
def show(call: Call, json: Json = False) -> None:
    require_models()
    emit_rows(call(), COLUMNS, title="Time relative to monolingual tokenizers", json=json)
