"""`modtok study cost`: what tokenizers cost models of several sizes, by arithmetic."""

from __future__ import annotations

from modtok_cli.cli.command import command
from modtok_cli.cli.commands.nsl import named_or_default, texts_of
from modtok_cli.cli.options import Errors, Json, Lang, Plot, References, Texts, Tokenizers
from modtok_cli.cli.output import Column
from modtok_cli.cli.plotting import check_plot
from modtok_cli.cli.session import Session
from modtok_cli.cli.study import emit_study

COLUMNS = (
    Column("tokenizer", "tokenizer"),
    Column("scale", "model"),
    Column("size", "size", "int"),
    Column("mean", "cost", "ratio"),
    Column("max", "max", "ratio"),
    Column("worst", "of"),
)


@command(
    "study cost",
    examples="""
    # the whole vocabulary against each language's own subset
    modtok study cost -t tokenizer -t tokenizer@each flores/
    # beside another model's tokenizer, as a picture
    modtok study cost -t tokenizer@each -t llama3.tiktoken flores/ --plot cost.svg
    """,
)
def study_cost(
    session: Session,
    texts: Texts,
    tokenizer: Tokenizers = None,
    references: References = None,
    lang: Lang = None,
    errors: Errors = "strict",
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Estimate what a tokenizer costs models of 0.5B to 30B parameters.

    Tokens times multiplications per token, output layer included, relative to the
    language's monolingual reference. Arithmetic only: nothing is run or timed.
    """
    check_plot(plot)
    from modtok_cli.measure.study.cost import study_cost
    from modtok_cli.measure.study.summary import cost_summary

    rows = study_cost(
        texts_of(texts),
        named_or_default(session, tokenizer, texts),
        references=references,
        language=lang,
        errors=errors,
        progress=session.progress,
    )
    tables = [("Cost relative to monolingual tokenizers", cost_summary(rows), COLUMNS)]
    emit_study(session, "cost", rows, tables, plot=plot, json=json)
