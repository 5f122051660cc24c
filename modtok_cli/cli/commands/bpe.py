"""`modtok bpe`: plain BPE tokenizers, one per language or a joint one."""

from pathlib import Path
from typing import Annotated

import typer

from modtok_cli.cli.command import command
from modtok_cli.cli.options import (
    Budget,
    Data,
    Force,
    Json,
    Langs,
    NoDefaultSpecials,
    Output,
    Pretokenizer,
    Special,
    Threads,
    split_languages,
)
from modtok_cli.cli.report import emit_report
from modtok_cli.cli.session import Session
from modtok_cli.text.reading import Reading

Joint = Annotated[
    bool,
    typer.Option("--joint", help="Learn one tokenizer of N tokens for all languages."),
]


@command(
    "bpe",
    examples="""
    # one language
    modtok bpe --langs fr -k 24000
    # three languages: bpe/en.json, bpe/fi.json, bpe/fr.json
    modtok bpe --langs en,fi,fr -k 24000
    # one multilingual tokenizer as a baseline: bpe-joint/
    modtok bpe --langs en,fi,fr --joint -k 64000
    """,
)
def bpe(
    session: Session,
    langs: Langs = None,
    k: Budget = 24000,
    joint: Joint = False,
    pretokenizer: Pretokenizer = "bpe",
    special: Special = None,
    no_default_specials: NoDefaultSpecials = False,
    data: Data = Path("data"),
    output: Output = None,
    reading: Reading = Reading(),
    threads: Threads = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Learn plain BPE tokenizers, per language or jointly.

    These are baselines for modular tokenizers. Each output is a tokenizer.json that the
    tokenizers library loads. Without --langs, all languages in data/ are used.
    """
    languages = split_languages(langs)
    from modtok_cli.construct.bpe import bpe

    report = bpe(
        languages,
        data=data,
        output=output,
        k=k,
        joint=joint,
        pretokenizer=pretokenizer,
        specials=tuple(special or ()),
        default_specials=not no_default_specials,
        reading=reading,
        threads=threads,
        force=force,
        progress=session.progress,
    )
    emit_report(report, title="BPE", json=json)
