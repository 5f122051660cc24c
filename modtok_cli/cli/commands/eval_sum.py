"""`modtok eval sum`: few-shot summarization, ROUGE."""

from modtok_cli.cli.command import command
from modtok_cli.cli.declaration import Call
from modtok_cli.cli.evaluation_output import Examples, emit_evaluation, evaluated
from modtok_cli.cli.inference_options import Gpus
from modtok_cli.cli.options import Json, Plot
from modtok_cli.cli.session import Session
from modtok_cli.evaluate.evaluate import evaluate_sum


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
    modtok eval sum fr-en/ --data wikilingua --examples summaries.jsonl
    """,
)
def show(
    session: Session,
    call: Call,
    gpus: Gpus = 1,
    examples: Examples = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Languages without documents are reported, and the exit status is 1."""
    evaluation = evaluated(session, call, gpus, examples, plot)
    emit_evaluation(session, evaluation, "Summarization", examples, plot, json=json)
