"""`modtok study combos`: unions of languages, extracted against concatenated."""

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
from modtok_cli.cli.study import Orders, Seed, command_line, emit_study, place

COLUMNS = (
    Column("n", "languages", "int"),
    Column("method", "method"),
    Column("sets", "sets", "int"),
    Column("values", "values", "int"),
    Column("mean", "NSL", "ratio"),
    Column("std", "± languages", "ratio"),
    Column("std_all", "± all", "ratio"),
    Column("min", "min", "ratio"),
    Column("max", "max", "ratio"),
)

Sample = Annotated[
    int,
    typer.Option(
        "--sample",
        metavar="N",
        min=1,
        help="Sets of languages to measure of each size; all where there are fewer.",
    ),
]


@command(
    "study combos",
    examples="""
    # sets of 1 to 4 languages, 60 of each size
    modtok study combos flores/
    # more of them, and the distribution per language as a picture
    modtok study combos flores/ --sample 200 --plot combos.svg
    """,
)
def study_combos(
    session: Session,
    texts: Texts,
    langs: Langs = None,
    k: Budget = 24000,
    orders: Orders = 4,
    sample: Sample = 60,
    seed: Seed = 0,
    data: Data = Path("data"),
    output: Output = None,
    errors: Errors = "strict",
    threads: Threads = None,
    plot: Plot = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Measure unions of 1 to 4 languages, extracted and concatenated.

    Extracted from sequential BPE under several orders, against naive concatenation of
    monolingual BPE in every order of the set. Rows go to studies/combos.jsonl.
    """
    check_plot(plot)
    from modtok_cli.measure.study.combos import study_combos
    from modtok_cli.measure.study.summary import combos_summary

    rows = study_combos(
        texts_of(texts),
        split_languages(langs),
        data=data,
        output=place(output, "combos"),
        k=k,
        orders=orders,
        sample=sample,
        seed=seed,
        errors=errors,
        threads=threads,
        force=force,
        command=command_line(session),
        progress=session.progress,
    )
    tables = [("NSL of unions", combos_summary(rows), COLUMNS)]
    emit_study(session, "combos", rows, tables, plot=plot, json=json)
