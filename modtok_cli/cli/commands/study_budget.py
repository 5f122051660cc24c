"""`modtok study budget`: NSL and the size of T over tokens per language."""

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.cli.command import command
from modtok_cli.cli.commands.nsl import texts_of
from modtok_cli.cli.options import (
    Budget,
    Data,
    Errors,
    Force,
    Json,
    Langs,
    Output,
    Plot,
    Texts,
    Threads,
    split_languages,
)
from modtok_cli.cli.output import Column
from modtok_cli.cli.plotting import check_plot
from modtok_cli.cli.session import Session
from modtok_cli.cli.study import command_line, emit_study, numbers, place

COLUMNS = (
    Column("k", "budget", "int"),
    Column("tokenizer", "tokenizer"),
    Column("size", "size", "int"),
    Column("mean", "NSL", "ratio"),
    Column("min", "min", "ratio"),
    Column("max", "max", "ratio"),
    Column("worst", "of"),
)

Budgets = Annotated[
    str,
    typer.Option("--budgets", metavar="N,...", help="Tokens per language to try."),
]


@command(
    "study budget",
    examples="""
    # budgets from 8,000 to 32,000, against references of 24,000
    modtok study budget flores/
    # others, as a picture
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
    errors: Errors = "strict",
    threads: Threads = None,
    plot: Plot = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn sequential BPE with several budgets and measure each.

    NSL is against monolingual references of -k tokens whatever the budget, so that
    budgets compare. Rows go to studies/budget.jsonl.
    """
    check_plot(plot)
    chosen = numbers(budgets, "--budgets")
    from modtok_cli.measure.study.budget import study_budget
    from modtok_cli.measure.study.summary import budget_summary

    rows = study_budget(
        texts_of(texts),
        split_languages(langs),
        data=data,
        output=place(output, "budget"),
        budgets=chosen,
        k=k,
        errors=errors,
        threads=threads,
        force=force,
        command=command_line(session),
        progress=session.progress,
    )
    tables = [("NSL over budgets", budget_summary(rows), COLUMNS)]
    emit_study(session, "budget", rows, tables, plot=plot, json=json)
