"""`modtok study budget`: NSL and size of T by vocabulary size per language."""

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.base.parameters import text_paths
from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Budget,
    Data,
    Force,
    Json,
    Langs,
    Output,
    Plot,
    Texts,
    Threads,
)
from modtok_cli.cli.plotting import check_plot
from modtok_cli.cli.session import Session
from modtok_cli.cli.study import command_line, emit_study, parse_numbers, study_output
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading

Budgets = Annotated[
    str,
    typer.Option("--budgets", metavar="N,...", help="Vocabulary sizes per language to compare."),
]


@command(
    "study budget",
    resumes=True,
    examples="""
    # budgets from 8,000 to 32,000, against references of 24,000
    modtok study budget flores/
    # other budgets, as a plot
    modtok study budget flores/ --budgets 4000,8000 -k 8000 --plot budget.svg
    """,
)
def study_budget(
    session: Session,
    texts: Texts,
    langs: Langs = None,
    budgets: Budgets = "8000,16000,24000,32000",
    k: Budget = 24000,
    data: Data = Path("data"),
    output: Output = None,
    reading: Reading = Reading(),
    threads: Threads = None,
    plot: Plot = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare vocabulary sizes per language for sequential BPE.

    NSL is relative to monolingual references of -k tokens for all budgets, which makes budgets
    comparable. Rows are written to studies/budget.jsonl.
    """
    check_plot(plot)
    chosen = parse_numbers(budgets, "--budgets")
    from modtok_cli.studies.budget import study_budget

    rows = study_budget(
        text_paths(texts),
        optional_languages(langs),
        data=data,
        output=study_output(output, "budget"),
        budgets=chosen,
        k=k,
        reading=reading,
        threads=threads,
        force=force,
        command=command_line(session),
        progress=session.progress,
    )
    emit_study(session, "budget", rows, plot=plot, json=json)
