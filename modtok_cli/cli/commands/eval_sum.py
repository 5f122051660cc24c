"""`modtok eval sum`: few-shot summarization, ROUGE."""

from modtok_cli.cli.command import Call, Json, Plot, command
from modtok_cli.cli.evaluation_output import Examples, emit_evaluation, shared_work
from modtok_cli.evaluate.evaluate import evaluate_sum
from modtok_cli.model.parameters import Gpus


@command(
    "eval sum",
    evaluate_sum,
    keeps=True,
    examples="""
    # the last run on tasks/sum, each language with its own subtokenizer
    modtok eval sum --langs fr
    # full input vocabulary, output over the vocabulary of the language
    modtok eval sum --langs fr,en --infer full-lang
    # a slice on other documents, with one row per summary
    modtok eval sum fr-en/ --eval-data wikilingua --examples summaries.jsonl
    """,
)
def show(
    call: Call,
    gpus: Gpus = 1,
    examples: Examples = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Languages without documents are reported, and the exit status is 1."""
    with shared_work(call, gpus, examples, needs=["rouge_score"]) as shared:
        evaluation = call(**shared)
    emit_evaluation(call, evaluation, "Summarization", examples, plot, json=json)
    shared["kept"].close()
