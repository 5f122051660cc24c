"""`modtok bpe-parity`: parity-aware BPE, a fairness baseline."""

from modtok_cli.cli.command import command
from modtok_cli.cli.declaration import Call
from modtok_cli.cli.options import Json
from modtok_cli.cli.report import emit_report, learned
from modtok_cli.cli.session import Session
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
def show(session: Session, call: Call, json: Json = False) -> None:
    emit_report(learned(call), title="Parity-aware BPE", json=json)
