"""`modtok bpe-merge`: union of monolingual vocabularies in fewest tokens."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.learned import emit_report, leave_out_unused
from modtok_cli.construct.bpe_merge import bpe_merge


@command(
    "bpe-merge",
    bpe_merge,
    resumes=True,
    examples="""
    # three languages from data/, into tokenizer/
    modtok bpe-merge --langs en,fi,fr -k 24000
    # also exportable to SentencePiece
    modtok bpe-merge --whole-characters -o whole
    modtok extract -t whole --langs fi -o fi.model
    # tokens such as " of the"
    modtok bpe-merge --superwords 200 -o superwords
    # new versions: Swedish added, French removed; other languages are unchanged
    modtok bpe-merge --append sv -t tokenizer -o tokenizer-2
    modtok bpe-merge --remove fr -t tokenizer-2 -o tokenizer-3
    """,
)
def show(call: Call, json: Json = False) -> None:
    leave_out_unused(call)
    emit_report(call(), title="Merged BPE, fewest tokens", json=json)
