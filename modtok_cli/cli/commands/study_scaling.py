"""`modtok study scaling`: size of T by number of languages."""

from pathlib import Path
from typing import Annotated

from typer import Option

from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Budget,
    Data,
    Force,
    Json,
    Langs,
    Output,
    Plot,
    Threads,
)
from modtok_cli.cli.plotting import check_plot
from modtok_cli.cli.session import Session
from modtok_cli.cli.study import Orders, Seed, command_line, emit_study, study_output
from modtok_cli.text.languages import optional_languages
from modtok_cli.text.reading import Reading

Families = Annotated[
    Path | None,
    Option(
        "--families",
        metavar="FILE",
        help="Learn one T per family; FILE has lines such as tr<tab>Turkic.",
    ),
]


@command(
    "study scaling",
    resumes=True,
    examples="""
    # the languages in data/, in three orders
    modtok study scaling
    # as a plot
    modtok study scaling --orders 5 --plot scaling.svg
    # each family by itself
    modtok study scaling --families families.tsv
    """,
)
def study_scaling(
    session: Session,
    langs: Langs = None,
    k: Budget = 24000,
    orders: Orders = 3,
    seed: Seed = 0,
    families: Families = None,
    data: Data = Path("data"),
    output: Output = None,
    reading: Reading = Reading(),
    threads: Threads = None,
    plot: Plot = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Measure the size of the whole tokenizer as languages are added.

    Languages are added by sequential BPE. Rows are written to studies/scaling.jsonl: for each
    order and language, the size of the tokenizer T so far, and the number of adopted and new
    tokens. With --families, each family has a T of its own; the summary gives the share of the
    sum of its vocabularies that T has, and x where T of n languages has n^x times the tokens of
    one.
    """
    check_plot(plot)
    from modtok_cli.studies.scaling import study_scaling

    rows = study_scaling(
        optional_languages(langs),
        data=data,
        output=study_output(output, "scaling"),
        k=k,
        orders=orders,
        seed=seed,
        families=families,
        reading=reading,
        threads=threads,
        force=force,
        command=command_line(session),
        progress=session.progress,
    )
    emit_study(session, "scaling", rows, plot=plot, json=json)
