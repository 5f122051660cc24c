"""`modtok unigram`: plain Unigram tokenizers, one per language or a joint one."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.learned import emit_report, leave_out_unused
from modtok_cli.construct.unigram import unigram


@command(
    "unigram",
    unigram,
    resumes=True,
    examples="""
    # three languages: unigram/en.json, unigram/en.model, …
    modtok unigram --langs en,fi,fr -k 24000
    # one multilingual tokenizer as a baseline: unigram-joint/
    modtok unigram --langs en,fi,fr --joint -k 64000
    """,
)
def show(call: Call, json: Json = False) -> None:
    leave_out_unused(call)
    emit_report(call(), title="Unigram", json=json)
