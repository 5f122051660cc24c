"""`modtok latency`: time of forward passes and decoding by tokenizer."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.inference_options import require_models
from modtok_cli.cli.output import Column, emit_rows
from modtok_cli.inference.cost.latency import latency

COLUMNS = (
    Column("model", "model"),
    Column("language", "lang"),
    Column("tokenizer", "tokenizer"),
    Column("vocabulary", "vocabulary", "int"),
    Column("tokens", "tokens", "int"),
    Column("forward_seconds", "forward", "seconds"),
    Column("forward_ratio", "ratio", "ratio"),
    Column("token_seconds", "per token", "seconds"),
    Column("decode_ratio", "ratio", "ratio"),
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
