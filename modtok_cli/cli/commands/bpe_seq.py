"""`modtok bpe-seq`: modular tokenizer by sequential BPE."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.learned import emit_report, leave_out_unused
from modtok_cli.construct.bpe_seq import bpe_seq


@command(
    "bpe-seq",
    bpe_seq,
    resumes=True,
    examples="""
    # three languages from data/, into tokenizer/
    modtok bpe-seq --langs en,fi,fr -k 24000
    # 30,000 tokens for Finnish; sizes that make the same lines equally long
    modtok bpe-seq -k 24000,fi=30000
    modtok bpe-seq --langs en,fi,fr --fair flores/
    # all languages in data/; better subtokenizers in twice the time
    modtok bpe-seq --passes 2
    # the same vocabulary with fewest-tokens segmentation
    modtok bpe-seq --segmentation fewest-tokens -o fewest
    # a new version with Swedish added
    modtok bpe-seq --append sv -t tokenizer -o tokenizer-2
    # 8,000 new tokens for Swedish in a published tokenizer
    modtok bpe-seq --append sv -t gemma.json -k 8000 -o grown
    """,
)
def show(call: Call, json: Json = False) -> None:
    leave_out_unused(call)
    emit_report(call(), title="Sequential BPE", json=json)
