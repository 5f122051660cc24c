"""`modtok study combos`: extracted unions of languages, compared with concatenation."""

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

Sets = Annotated[
    int,
    typer.Option(
        "--sets",
        metavar="N",
        min=1,
        help="Number of sets of each size; all if there are fewer.",
    ),
]


@command(
    "study combos",
    resumes=True,
    examples="""
    # sets of 1 to 4 languages, 60 of each size
    modtok study combos flores/
    # 200 sets, and a plot of the distribution per language
    modtok study combos flores/ --sets 200 --plot combos.svg
    """,
)
def study_combos(
    session: Session,
    texts: Texts,
    langs: Langs = None,
    k: Budget = 24000,
    orders: Orders = 4,
    sets: Sets = 60,
    seed: Seed = 0,
    data: Data = Path("data"),
    output: Output = None,
    reading: Reading = Reading(),
    threads: Threads = None,
    plot: Plot = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compare unions of 1 to 4 languages, extracted and concatenated.

    Subsets extracted from sequential BPE under several language orders are compared with naive
    concatenation of monolingual BPE in every order of the set. Rows are written to
    studies/combos.jsonl.
    """
    check_plot(plot)
    from modtok_cli.studies.combos import study_combos

    rows = study_combos(
        text_paths(texts),
        optional_languages(langs),
        data=data,
        output=study_output(output, "combos"),
        k=k,
        orders=orders,
        sets=sets,
        seed=seed,
        reading=reading,
        threads=threads,
        force=force,
        command=command_line(session),
        progress=session.progress,
    )
    emit_study(session, "combos", rows, plot=plot, json=json)
