"""`modtok bpe-seq`: modular tokenizer by sequential BPE."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from modtok_cli.cli import completion
from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Budget,
    Data,
    Extended,
    Force,
    Json,
    Langs,
    NoDefaultSpecials,
    NoReferences,
    Output,
    Pretokenizer,
    Special,
    Threads,
    extension,
    split_languages,
)
from modtok_cli.cli.report import emit_report
from modtok_cli.cli.session import Session, Value
from modtok_cli.text.reading import Reading

Order = Annotated[
    Literal["alphabetical", "given", "size"],
    typer.Option("--order", help="Order of the languages; size: largest text first."),
]
Passes = Annotated[
    int,
    typer.Option(
        "--passes",
        metavar="N",
        min=1,
        max=2,
        help="With 2, resegment with the adopted merges only, then relearn the new merges.",
    ),
]
UnitCounts = Annotated[
    Literal["all", "word"],
    typer.Option(
        "--unit-counts",
        help="Adopt tokens by their count in all words, or by their count as whole words.",
    ),
]
Segmentation = Annotated[
    Literal["merges", "fewest-tokens"],
    typer.Option(
        "--segmentation",
        help="Segment words by merges, or into the fewest tokens.",
    ),
]
Append = Annotated[
    str | None,
    typer.Option(
        "--append",
        metavar="LANG,...",
        autocompletion=completion.appended,
        help="Add languages to an existing tokenizer; all its ids and merges stay unchanged. "
        "Conflicting options are an error.",
    ),
]


@command(
    "bpe-seq",
    resumes=True,
    examples="""
    # three languages from data/, into tokenizer/
    modtok bpe-seq --langs en,fi,fr -k 24000
    # all languages in data/; better subtokenizers in twice the time
    modtok bpe-seq --passes 2
    # the same vocabulary with fewest-tokens segmentation
    modtok bpe-seq --segmentation fewest-tokens -o fewest
    # a new version with Swedish added
    modtok bpe-seq --append sv -t tokenizer -o tokenizer-2
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
    pretokenizer: Pretokenizer = "bpe",
    append: Append = None,
    tokenizer: Extended = None,
    no_references: NoReferences = False,
    special: Special = None,
    no_default_specials: NoDefaultSpecials = False,
    data: Data = Path("data"),
    output: Output = Path("tokenizer"),
    reading: Reading = Reading(),
    threads: Threads = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn a modular tokenizer by sequential BPE.

    The result is one vocabulary in which each language uses N tokens. A compact tokenizer can
    be extracted for any subset of the languages. Languages are processed in order: each
    adopts useful existing tokens and adds new ones until it has N. Without --langs, all
    languages in data/ are used.
    """
    languages = split_languages(langs)
    added = split_languages(append, "--append")
    from modtok_cli.construct.bpe_seq import bpe_seq

    def setting(name: str, value: Value) -> Value | None:
        return value if added is None else session.if_explicit(name, value)

    extended, place = extension(session, tokenizer, output or Path("tokenizer"))
    report = bpe_seq(
        setting("langs", languages),
        data=data,
        output=place,
        k=setting("k", k),
        order=setting("order", order),
        passes=setting("passes", passes),
        unit_counts=setting("unit_counts", unit_counts),
        segmentation=setting("segmentation", segmentation),
        pretokenizer=setting("pretokenizer", pretokenizer),
        append=added,
        tokenizer=extended,
        references=not no_references,
        specials=tuple(setting("special", special or []) or ()),
        default_specials=not setting("no_default_specials", no_default_specials),
        reading=reading,
        threads=threads,
        force=force,
        progress=session.progress,
    )
    emit_report(report, title="Sequential BPE", json=json)
