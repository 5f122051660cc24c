"""`modtok unigram-merge`: modular tokenizer from monolingual Unigram models."""

from modtok_cli.cli.command import Call, Json, command
from modtok_cli.cli.learned import emit_report, leave_out_unused
from modtok_cli.construct.unigram_merge import unigram_merge


@command(
    "unigram-merge",
    unigram_merge,
    resumes=True,
    examples="""
    # three languages from data/, into tokenizer/
    modtok unigram-merge --langs en,fi,fr -k 24000
    # use existing SentencePiece models, such as models/en.model
    modtok unigram-merge --langs en,fi --models models
    # no EM: mean probabilities of the models
    modtok unigram-merge --iterations 0
    # equal weight for all languages, whatever the size of their text
    modtok unigram-merge --weights equal
    # 8,000 Finnish pieces after those of a published tokenizer
    modtok unigram-merge --append fi -t xlm-roberta/ -k 8000 -o grown
    """,
)
def show(call: Call, json: Json = False) -> None:
    leave_out_unused(call)
    emit_report(call(), title="Merged Unigram", json=json)
