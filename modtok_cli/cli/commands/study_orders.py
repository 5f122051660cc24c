"""`modtok study orders`: sequential BPE under several language orders."""

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
from modtok_cli.cli.study import Orders, Seed, command_line, emit_study, study_output
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading

NoJoint = Annotated[
    bool, typer.Option("--no-joint", help="Skip the joint BPE baseline of the size of T.")
]


@command(
    "study orders",
    resumes=True,
    examples="""
    # five orders of the languages in data/, measured on parallel text
    modtok study orders flores/
    # eight orders, with a plot; an interrupted study resumes
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
    reading: Reading = Reading(),
    threads: Threads = None,
    plot: Plot = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare language orders for sequential BPE.

    Rows are written to studies/orders.jsonl: T and the subtokenizers of every order, and a
    joint BPE of the same size. The table shows minimum and maximum NSL.
    """
    check_plot(plot)
    from modtok_cli.studies.orders import study_orders

    rows = study_orders(
        text_paths(texts),
        optional_languages(langs),
        data=data,
        output=study_output(output, "orders"),
        k=k,
        orders=orders,
        seed=seed,
        joint=not no_joint,
        reading=reading,
        threads=threads,
        force=force,
        command=command_line(session),
        progress=session.progress,
    )
    emit_study(session, "orders", rows, plot=plot, json=json)
