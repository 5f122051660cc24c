"""`modtok bpe-seq`: a modular tokenizer by sequential BPE."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Budget,
    Data,
    Errors,
    Force,
    Json,
    Langs,
    NoReferences,
    Output,
    Special,
    Threads,
    split_languages,
)
from modtok_cli.cli.report import emit_report
from modtok_cli.cli.session import Session, Value

Order = Annotated[
    Literal["alphabetical", "given", "size"],
    typer.Option("--order", help="Order of the languages; size: most text first."),
]
Passes = Annotated[
    int,
    typer.Option(
        "--passes",
        metavar="N",
        min=1,
        max=2,
        help="2: segment again with the adopted merges only and learn the new ones anew.",
    ),
]
UnitCounts = Annotated[
    Literal["all", "word"],
    typer.Option(
        "--unit-counts",
        help="What makes a token worth adopting: all its occurrences, or those as a whole word.",
    ),
]
Segmentation = Annotated[
    Literal["merges", "fewest-tokens"],
    typer.Option(
        "--segmentation",
        help="Segment words by applying merges, or into the fewest tokens.",
    ),
]
Append = Annotated[
    str | None,
    typer.Option(
        "--append",
        metavar="LANG,...",
        help="Add languages to the tokenizer that is there; older ids and merges stay. Its "
        "settings hold, whatever modtok.toml says; others on the command line are refused.",
    ),
]


@command(
    "bpe-seq",
    examples="""
    # three languages from data/, into tokenizer/
    modtok bpe-seq --langs en,fi,fr -k 24000
    # every language in data/, better subtokenizers, twice the time
    modtok bpe-seq --passes 2
    # the same vocabulary, with words segmented into the fewest tokens
    modtok bpe-seq --segmentation fewest-tokens -o fewest
    # add Swedish to the tokenizer that is there
    modtok bpe-seq --append sv
    """,
)
def bpe_seq(
    session: Session,
    langs: Langs = None,
    k: Budget = 24000,
    order: Order = "alphabetical",
    passes: Passes = 1,
    unit_counts: UnitCounts = "all",
    segmentation: Segmentation = "merges",
    append: Append = None,
    no_references: NoReferences = False,
    special: Special = None,
    data: Data = Path("data"),
    output: Output = Path("tokenizer"),
    errors: Errors = "strict",
    threads: Threads = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn a modular tokenizer by sequential BPE.

    One vocabulary, of which each language uses k tokens; any set of languages can be
    taken out of it later. Languages come one after the other: each adopts tokens that
    are there already where they serve it, and adds its own, until it has k. Without
    --langs, every language in data/.
    """
    languages = split_languages(langs)
    added = split_languages(append, "--append")
    from modtok_cli.construct.bpe_seq import bpe_seq

    def setting(name: str, value: Value) -> Value | None:
        return value if added is None else session.if_told(name, value)

    report = bpe_seq(
        setting("langs", languages),
        data=data,
        output=output or Path("tokenizer"),
        k=setting("k", k),
        order=setting("order", order),
        passes=setting("passes", passes),
        unit_counts=setting("unit_counts", unit_counts),
        segmentation=setting("segmentation", segmentation),
        append=added,
        references=not no_references,
        specials=tuple(setting("special", special or []) or ()),
        errors=errors,
        threads=threads,
        force=force,
        progress=session.progress,
    )
    emit_report(report, title="Sequential BPE", json=json)
