"""`modtok study orders`: sequential BPE under several language orders."""

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
    Column("tokenizer", "tokenizer"),
    Column("language", "lang"),
    Column("size", "size", "int"),
    Column("mean", "NSL", "ratio"),
    Column("min", "min", "ratio"),
    Column("max", "max", "ratio"),
    Column("spread", "spread", "ratio"),
)

NoJoint = Annotated[
    bool, typer.Option("--no-joint", help="Leave out the ordinary BPE of the size of T.")
]


@command(
    "study orders",
    examples="""
    # five orders of the languages in data/, measured on parallel text
    modtok study orders flores/
    # as a picture; a study that was stopped goes on where it was
    modtok study orders flores/ --orders 8 --plot orders.svg
    """,
)
def study_orders(
    session: Session,
    texts: Texts,
    langs: Langs = None,
    k: Budget = 24000,
    orders: Orders = 5,
    no_joint: NoJoint = False,
    seed: Seed = 0,
    data: Data = Path("data"),
    output: Output = None,
    errors: Errors = "strict",
    threads: Threads = None,
    plot: Plot = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn sequential BPE under several language orders and measure each.

    Rows go to studies/orders.jsonl: T and the extracted subtokenizers of every order, and
    an ordinary joint BPE of the same size. The table shows least and largest NSL.
    """
    check_plot(plot)
    from modtok_cli.measure.study.orders import study_orders
    from modtok_cli.measure.study.summary import orders_summary

    rows = study_orders(
        texts_of(texts),
        split_languages(langs),
        data=data,
        output=place(output, "orders"),
        k=k,
        orders=orders,
        seed=seed,
        joint=not no_joint,
        errors=errors,
        threads=threads,
        force=force,
        command=command_line(session),
        progress=session.progress,
    )
    tables = [("NSL over language orders", orders_summary(rows), COLUMNS)]
    emit_study(session, "orders", rows, tables, plot=plot, json=json)
