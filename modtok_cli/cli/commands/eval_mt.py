"""`modtok eval mt`: few-shot translation, BLEU and chrF++."""

from modtok_cli.cli.command import Call, Json, Plot, command
from modtok_cli.cli.evaluation_output import Examples, emit_evaluation, shared_work
from modtok_cli.evaluate.evaluate import evaluate_mt
from modtok_cli.model.parameters import Gpus


@command(
    "eval mt",
    evaluate_mt,
    keeps=True,
    examples="""
    # the last run on tasks/mt, each pair with the union of its subtokenizers
    modtok eval mt --pairs en-fr,en-fi
    # separate source and target vocabularies; all pairs with the full vocabulary
    modtok eval mt --pairs en-fr --infer "src|tgt"
    modtok eval mt --pairs all --infer full --infer en,fr
    # custom parallel text, with one row per translation
    modtok eval mt --pairs en-fr --eval-data news.tsv --examples written.jsonl
    """,
)
def show(
    call: Call,
    gpus: Gpus = 1,
    examples: Examples = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Pairs without text are reported, and the exit status is 1."""
    with shared_work(call, gpus, examples, needs=["sacrebleu"]) as shared:
        evaluation = call(**shared)
    emit_evaluation(call, evaluation, "Translation", examples, plot, json=json)
    shared["kept"].close()
