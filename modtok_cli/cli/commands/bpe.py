"""`modtok bpe`: plain BPE tokenizers, one per language or a joint one."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.learned import emit_report, leave_out_unused
from modtok_cli.construct.bpe import bpe


@command(
    "bpe",
    bpe,
    examples="""
    # one language
    modtok bpe --langs fr -k 24000
    # three languages: bpe/en.json, bpe/fi.json, bpe/fr.json
    modtok bpe --langs en,fi,fr -k 24000
    # one multilingual tokenizer as a baseline: bpe-joint/
    modtok bpe --langs en,fi,fr --joint -k 64000
    """,
)
def show(call: Call, json: Json = False) -> None:
    leave_out_unused(call)
    emit_report(call(), title="BPE", json=json)
