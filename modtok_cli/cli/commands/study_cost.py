"""`modtok study cost`: estimated inference cost of tokenizers by model size."""

from __future__ import annotations

from modtok_cli.base.parameters import text_paths
from modtok_cli.cli.command import command
from modtok_cli.cli.commands.nsl import tokenizers_or_default
from modtok_cli.cli.options import Json, Lang, Plot, References, Texts, Tokenizers
from modtok_cli.cli.plotting import check_plot
from modtok_cli.cli.session import Session
from modtok_cli.cli.study import emit_study
from modtok_cli.text.reading import Reading


@command(
    "study cost",
    examples="""
    # the full vocabulary and the subset of each language
    modtok study cost -t tokenizer -t tokenizer@each flores/
    # with an external tokenizer, as a plot
    modtok study cost -t tokenizer@each -t llama3.tiktoken flores/ --plot cost.svg
    """,
)
def study_cost(
    session: Session,
    texts: Texts,
    tokenizer: Tokenizers = None,
    references: References = None,
    lang: Lang = None,
    reading: Reading = Reading(),
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Estimate the inference cost of tokenizers by model size.

    Models have 0.5B to 30B parameters. Cost is tokens times multiplications per token,
    including the output layer, relative to the monolingual reference of the language. It is
    computed, not measured.
    """
    check_plot(plot)
    from modtok_cli.studies.cost import study_cost

    rows = study_cost(
        text_paths(texts),
        tokenizers_or_default(session, tokenizer, texts),
        references=references,
        language=lang,
        reading=reading,
        progress=session.progress,
    )
    emit_study(session, "cost", rows, plot=plot, json=json)
