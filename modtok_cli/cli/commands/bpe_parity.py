"""`modtok bpe-parity`: parity-aware BPE, a fairness baseline."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.report import emit_report, learned
from modtok_cli.construct.bpe_parity import bpe_parity


@command(
    "bpe-parity",
    bpe_parity,
    examples="""
    # balance on a development set, compare on a test set
    modtok bpe-parity flores/dev --langs en,fi,fr -k 64000
    modtok fairness -t bpe-parity.json -t tokenizer@each flores/devtest
    """,
)
def show(call: Call, json: Json = False) -> None:
    emit_report(learned(call), title="Parity-aware BPE", json=json)
